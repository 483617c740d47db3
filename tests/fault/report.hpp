// Report: what a process of a round did and saw, in memory that all of them share.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <utility>

#include "unisono/base/error.hpp"

namespace unisono::fault {

constexpr int kMostRanks = 16;

/// What kind of error a rank threw.
enum class ErrorKind : std::int32_t { NONE, BACKEND, TIMEOUT, STORE, NETWORK, USAGE, OTHER };

struct Report {
  std::atomic<std::int64_t> calledNs;    // when it called what it is in
  std::atomic<std::int64_t> endedNs;     // when that threw; 0: not yet
  std::atomic<std::int64_t> operations;  // that ended well
  std::atomic<std::int64_t> phase;       // what the row likes to know
  std::atomic<std::int64_t> pid;         // of a process that the rank started
  std::atomic<std::int64_t> leftBehind;  // descriptors and mappings after its group was gone
  std::atomic<std::int64_t> warnings;    // lines that it has logged
  std::atomic<bool> wrong;               // a result, or a byte beside it, was not as it must be
  std::atomic<ErrorKind> kind;
  std::atomic<std::int32_t> reason;
  std::atomic<std::uint32_t> culprits;  // a bit per rank
  // The group stays failed: how its next call ended.
  std::atomic<std::int32_t> nextReason;
  std::atomic<std::uint32_t> nextCulprits;
  std::atomic<std::int64_t> nextNs;
  char socket[64];  // the name of its monitor's
  char text[1024];
};

/// Now, for times that processes compare.
std::int64_t nowNs();

/// One report per rank.
class Board {
 public:
  Board() {
    void* memory = ::mmap(nullptr, sizeof(Report) * kMostRanks, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::runtime_error("no memory for a board");
    }
    reports_ = static_cast<Report*>(memory);
  }
  ~Board() { ::munmap(reports_, sizeof(Report) * kMostRanks); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  Report& operator[](int rank) const { return reports_[rank]; }

 private:
  Report* reports_;
};

/// Writes down how `error` looks; `endedNs` last.
void note(Report& report, const std::exception& error, std::int64_t when);

/// The culprits of an error as bits.
std::uint32_t bitsOf(const std::vector<int>& ranks);

}  // namespace unisono::fault
