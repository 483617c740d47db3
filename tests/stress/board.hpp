// Board: what the processes of one round tell each other, in memory that they share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <sys/mman.h>

#include "base/clock.hpp"

namespace unisono::stress {

constexpr int kMostClients = 6;
constexpr int kMostElements = 1 << 14;  // that one client pushes in one round
constexpr int kMostBarriers = 256;

/// What one client has done. Written by the client, but for `stops`.
struct ClientNotes {
  std::atomic<std::int64_t> calls{0};
  std::atomic<std::int64_t> answers{0};
  std::atomic<std::int64_t> timeouts{0};
  std::atomic<std::int64_t> losses{0};
  std::atomic<std::int64_t> worstLateUs{0};
  std::atomic<std::int64_t> detectUs{-1};  // from the death of the server to the first STORE_LOST

  // Attempted, counted before the call; and known to have been done.
  std::atomic<std::int64_t> addsTried{0};
  std::atomic<std::int64_t> addsDone{0};
  std::atomic<std::int64_t> valuesTried{0};
  std::atomic<std::int64_t> pushesTried{0};
  std::atomic<std::int64_t> swapsTried{0};
  std::array<std::atomic<bool>, kMostElements> popped{};  // of the elements that it pushed

  /// Odd while the process is stopped; changed by the parent around every stop.
  std::atomic<std::int64_t> stops{0};

  std::array<char, 32> call{};        // the one it is in, for a report of a hang
  std::array<char, 400> violation{};  // empty when all is well
};

struct Board {
  std::array<ClientNotes, kMostClients> clients;
  std::array<std::atomic<int>, kMostBarriers> arrivals{};  // counted before each arrival
  std::atomic<bool> end{false};                            // clients are to finish
  std::atomic<std::int64_t> serverKilledAtUs{0};           // 0 while nobody has killed it
};

inline std::int64_t nowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A board that forked children share with their parent.
class SharedBoard {
 public:
  SharedBoard()
      : memory_(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) {
    if (memory_ == MAP_FAILED) {
      throw std::runtime_error("cannot map the shared board");
    }
    board_ = new (memory_) Board;
  }
  ~SharedBoard() { ::munmap(memory_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  Board& operator*() const { return *board_; }
  Board* operator->() const { return board_; }

 private:
  void* memory_;
  Board* board_;
};

}  // namespace unisono::stress
