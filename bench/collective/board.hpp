// Board: memory that a comparison shares with the ranks of those it compares.
//
// The comparison writes a task and wakes the ranks of the contestant whose turn it is; all others
// sleep, whatever library they use. The ranks leave their times here.
//
// For programs that link nothing of unisono, too: the peers. Header only.
#pragma once

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/collective/element.hpp"

namespace unisono::bench {

enum class Op : std::uint32_t {
  QUIT,
  ALL_REDUCE,
  BROADCAST,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_TO_ALL,
  BARRIER,
  PING_PONG,  // send and recv between ranks 0 and 1, there and back
  REDUCE,     // to the root of the task, as those below
  GATHER,
  SCATTER,
  // What the machine can do, without any library: all ranks at the same time.
  COPY,         // every rank copies a vector
  READ_MODIFY,  // every rank changes a vector in place
  LINE_FLIGHT,  // a word from rank 0 to rank 1 and back
};

/// So many operations, each with data that was just written; or `inARow`: one after the other
/// without a pause, of which only the time of all together is known.
struct Task {
  Op op = Op::QUIT;
  std::uint64_t bytes = 0;  // of the whole vector
  std::uint64_t count = 0;
  Element element = Element::FLOAT32;
  bool inARow = false;
  Reduction reduction = Reduction::SUM;
  bool isChecked = true;  // results are compared with what they must be
  std::int32_t root = 0;
};

/// What a rank has of the machine.
struct Holding {
  std::uint64_t memoryKib = 0;    // all of its own, and its part of what it shares; 0: unknown
  std::uint64_t connections = 0;  // by TCP
};

struct Board {
  static constexpr int kMostRanks = 256;
  static constexpr int kMostContestants = 8;
  static constexpr std::uint64_t kMostOperations = 4096;
  static constexpr std::size_t kMostVersion = 128;

  alignas(128) std::atomic<std::uint32_t> turn[kMostContestants];   // futex: one more, go
  alignas(128) std::atomic<std::uint32_t> ready[kMostContestants];  // ranks that have come up
  alignas(128) std::atomic<std::uint32_t> finished;  // futex: ranks that are done with the task
  alignas(128) std::atomic<std::uint32_t> arrived;   // a barrier of our own: the same for all
  alignas(128) std::atomic<std::uint32_t> generation;
  alignas(128) std::atomic<std::uint64_t> wrong;      // elements that were not right, of all ranks
  alignas(128) std::atomic<std::uint32_t> lacking;    // ranks whose library has no such elements
  alignas(128) std::atomic<std::uint32_t> flight[2];  // LINE_FLIGHT: there, and back
  alignas(128) Task task;
  std::uint32_t ranks;
  bool isRoaming;                                           // ranks are not bound to cores
  std::uint64_t startNs[kMostContestants][kMostRanks];      // when it had come up (CLOCK_MONOTONIC)
  Holding held[kMostContestants][kMostRanks];               // then,
  Holding heldAfter[kMostContestants][kMostRanks];          // and after its first operations
  std::uint64_t firstNs[kMostContestants][kMostRanks];      // what the first of them took
  std::uint64_t preemptions[kMostContestants][kMostRanks];  // how often it lost its core so far
  char version[kMostContestants][kMostVersion];             // of its library, as it says itself
  alignas(128) std::uint64_t nanoseconds[kMostRanks][kMostOperations];
};

inline constexpr const char* kBoardVariable = "UNISONO_COMPARE_BOARD";        // a file
inline constexpr const char* kContestantVariable = "UNISONO_COMPARE_NUMBER";  // which one this is
inline constexpr const char* kLayoutVariable = "UNISONO_COMPARE_LAYOUT";      // see layoutFor()

/// Maps the board in `path`; null when that fails.
inline Board* openBoard(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Board*>(memory);
}

inline void sleepWhile(std::atomic<std::uint32_t>& word, std::uint32_t seen, long milliseconds) {
  const timespec most{.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &most, nullptr, 0);
}
inline void wakeAll(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Returns when all ranks are here. Where each has a core it looks all the time, but not for long:
/// a library's own threads may need that core.
inline void meet(Board& board, bool crowded) {
  const std::uint32_t generation = board.generation.load(std::memory_order_acquire);
  if (board.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == board.ranks) {
    board.arrived.store(0, std::memory_order_relaxed);
    board.generation.store(generation + 1, std::memory_order_release);
    return;
  }
  for (int looks = 0; board.generation.load(std::memory_order_acquire) == generation; ++looks) {
    if (crowded || looks > 20'000) {
      ::sched_yield();
    }
  }
}

}  // namespace unisono::bench
