// One rank of a contestant: waits for tasks, does them, and writes down how long each took.
//
// Header only, as board.hpp. The loop is the same for all contestants; they differ in Contestant.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "bench/collective/board.hpp"

namespace unisono::bench {

/// A library under test, as one rank sees it. All calls return when the operation is over.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sums `count` floats of all ranks, in place.
  virtual void allReduce(float* data, std::size_t count) = 0;
  /// From rank 0.
  virtual void broadcast(float* data, std::size_t count) = 0;
  /// `count` floats of each rank; `all` has size() times as many.
  virtual void allGather(const float* mine, float* all, std::size_t count) = 0;
  /// `all` has size() times `count` floats.
  virtual void reduceScatter(const float* all, float* part, std::size_t count) = 0;
  /// `count` floats for each rank.
  virtual void allToAll(const float* give, float* take, std::size_t count) = 0;
  virtual void barrier() = 0;
  virtual void send(const float* data, std::size_t count, int to) = 0;
  virtual void receive(float* data, std::size_t count, int from) = 0;

  /// Whether threads of its own do the work: then they need the cores while a rank waits.
  virtual bool hasThreads() const { return false; }

  /// Memory for `count` floats.
  virtual std::shared_ptr<float> allocate(std::size_t count) {
    constexpr auto kPage = std::align_val_t(4096);
    return {static_cast<float*>(::operator new(count * sizeof(float), kPage)),
            [](float* data) { ::operator delete(data, kPage); }};
  }
};

class Member {
 public:
  Member(Contestant& contestant, Board& board, int number)
      : contestant_(contestant),
        board_(board),
        number_(number),
        crowded_(contestant.hasThreads() ||
                 contestant.size() > static_cast<int>(std::thread::hardware_concurrency())) {
    if (!crowded_) {  // a core for each
      cpu_set_t cores;
      CPU_ZERO(&cores);
      CPU_SET(static_cast<unsigned>(contestant.rank()), &cores);
      ::sched_setaffinity(0, sizeof cores, &cores);
    }
  }

  /// Until it is told to quit, or nobody has said anything for ten minutes.
  void serve() {
    std::atomic<std::uint32_t>& turn = board_.turn[number_];
    std::uint32_t seen = turn.load(std::memory_order_acquire);
    const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
    board_.startNs[number_][contestant_.rank()] = static_cast<std::uint64_t>(now.count());
    board_.memoryKib[number_][contestant_.rank()] = memoryKib();
    board_.ready[number_].fetch_add(1, std::memory_order_acq_rel);
    for (;;) {
      const auto start = std::chrono::steady_clock::now();
      while (turn.load(std::memory_order_acquire) == seen) {
        sleepWhile(turn, seen, 1000);
        if (std::chrono::steady_clock::now() - start > std::chrono::minutes(10)) {
          return;
        }
      }
      seen = turn.load(std::memory_order_acquire);
      if (board_.task.op == Op::QUIT) {
        return;
      }
      perform(board_.task);
      board_.finished.fetch_add(1, std::memory_order_acq_rel);
      wakeAll(board_.finished);
    }
  }

 private:
  /// What this process takes of the machine's memory: all of its own, and its part of what it
  /// shares; 0 when the kernel does not tell.
  static std::uint64_t memoryKib() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string line; std::getline(file, line);) {
      if (unsigned long kib = 0; std::sscanf(line.c_str(), "Pss: %lu kB", &kib) == 1) {
        return kib;
      }
    }
    return 0;
  }

  using Buffer = std::shared_ptr<float>;

  Buffer makeBuffer(std::size_t count) {
    Buffer buffer = contestant_.allocate(count + 1);
    std::memset(buffer.get(), 0, (count + 1) * sizeof(float));
    return buffer;
  }

  /// What rank `rank` has at `i`: small, so that sums of floats are exact.
  static float valueOf(int rank, std::size_t i) {
    return static_cast<float>(static_cast<int>(i % 61) + rank);
  }
  void write(float* data, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = valueOf(contestant_.rank(), i);
    }
  }

  void perform(const Task& task) {
    const auto ranks = static_cast<std::size_t>(contestant_.size());
    const std::size_t part = task.bytes / sizeof(float) / ranks;  // where a vector is cut
    const bool whole =
        task.op == Op::ALL_REDUCE || task.op == Op::BROADCAST || task.op == Op::PING_PONG;
    const std::size_t count = whole ? task.bytes / sizeof(float) : part * ranks;
    const Buffer in = makeBuffer(count);
    const Buffer out = makeBuffer(count);
    bool right = true;
    for (std::uint64_t i = 0; i < task.count; ++i) {
      write(in.get(), count);
      meet(board_, crowded_);
      const auto start = std::chrono::steady_clock::now();
      run(task.op, in.get(), out.get(), whole ? count : part);
      const auto end = std::chrono::steady_clock::now();
      board_.nanoseconds[contestant_.rank()][i] =
          static_cast<std::uint64_t>(std::chrono::nanoseconds(end - start).count());
      if (i == 0 || i + 1 == task.count) {
        right = check(task.op, in.get(), out.get(), count) && right;
      }
    }
    if (!right) {
      board_.wrong.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void run(Op op, float* in, float* out, std::size_t count) {
    switch (op) {
      case Op::ALL_REDUCE:
        return contestant_.allReduce(in, count);
      case Op::BROADCAST:
        return contestant_.broadcast(in, count);
      case Op::ALL_GATHER:
        return contestant_.allGather(in, out, count);
      case Op::REDUCE_SCATTER:
        return contestant_.reduceScatter(in, out, count);
      case Op::ALL_TO_ALL:
        return contestant_.allToAll(in, out, count);
      case Op::BARRIER:
        return contestant_.barrier();
      case Op::PING_PONG:
        return pingPong(in, out, count);
      case Op::QUIT:
        return;
    }
  }

  void pingPong(float* in, float* out, std::size_t count) {
    if (contestant_.rank() == 0) {
      contestant_.send(in, count, 1);
      contestant_.receive(out, count, 1);
    } else if (contestant_.rank() == 1) {
      contestant_.receive(out, count, 0);
      contestant_.send(out, count, 0);
    }
  }

  bool check(Op op, const float* in, const float* out, std::size_t count) const {
    const int ranks = contestant_.size();
    const int me = contestant_.rank();
    const std::size_t part = count / static_cast<std::size_t>(ranks);
    const auto all = static_cast<float>(ranks);
    const float numbers = all * (all - 1) / 2;  // the sum of all ranks
    const auto each = [&](const float* data, std::size_t many, auto right) {
      for (std::size_t i = 0; i < many; ++i) {
        if (data[i] != right(i)) {
          return false;
        }
      }
      return true;
    };
    switch (op) {
      case Op::ALL_REDUCE:
        return each(in, count, [&](std::size_t i) { return all * valueOf(0, i) + numbers; });
      case Op::BROADCAST:
        return each(in, count, [&](std::size_t i) { return valueOf(0, i); });
      case Op::ALL_GATHER:
        return each(out, count,
                    [&](std::size_t i) { return valueOf(static_cast<int>(i / part), i % part); });
      case Op::REDUCE_SCATTER:
        return each(out, part, [&](std::size_t i) {
          return all * valueOf(0, static_cast<std::size_t>(me) * part + i) + numbers;
        });
      case Op::ALL_TO_ALL:
        return each(out, count, [&](std::size_t i) {
          return valueOf(static_cast<int>(i / part),
                         static_cast<std::size_t>(me) * part + i % part);
        });
      case Op::PING_PONG:
        return me > 1 || each(out, count, [&](std::size_t i) { return valueOf(0, i); });
      case Op::BARRIER:
      case Op::QUIT:
        break;
    }
    return true;
  }

  Contestant& contestant_;
  Board& board_;
  const int number_;
  const bool crowded_;
};

/// The main() of a contestant's rank.
inline int serveBoard(Contestant& contestant) {
  const char* path = std::getenv(kBoardVariable);
  const char* number = std::getenv(kContestantVariable);
  Board* board = path == nullptr || number == nullptr ? nullptr : openBoard(path);
  if (board == nullptr) {
    std::fprintf(stderr, "this program is started by: unisono_compare\n");
    return 2;
  }
  Member(contestant, *board, std::atoi(number)).serve();
  return 0;
}

}  // namespace unisono::bench
