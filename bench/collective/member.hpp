// One rank of a contestant: waits for tasks, does them, and writes down how long each took.
//
// Header only, as board.hpp. The loop is the same for all contestants; they differ in Contestant.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <netinet/in.h>
#include <new>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>

#include "bench/collective/board.hpp"

namespace unisono::bench {

/// A library under test, as one rank sees it. All calls return when the operation is over. Counts
/// are of the elements that use() was last called with.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Its name for itself, and its version.
  virtual std::string version() const = 0;
  /// The operations that follow are on such elements, and reduce so; false when it cannot.
  virtual bool use(Element element, Reduction reduction) = 0;
  /// Reduces `count` elements of all ranks, in place.
  virtual void allReduce(void* data, std::size_t count) = 0;
  /// The same, but only rank `root` gets the result. The others' data is left as it is.
  virtual void reduce(void* data, std::size_t count, int root) = 0;
  virtual void broadcast(void* data, std::size_t count, int root) = 0;
  /// `count` elements of each rank; `all` has size() times as many.
  virtual void allGather(const void* mine, void* all, std::size_t count) = 0;
  /// The same to rank `root`.
  virtual void gather(const void* mine, void* all, std::size_t count, int root) = 0;
  /// From rank `root`: `all` has size() times `count` elements.
  virtual void scatter(const void* all, void* part, std::size_t count, int root) = 0;
  virtual void reduceScatter(const void* all, void* part, std::size_t count) = 0;
  /// `count` elements for each rank.
  virtual void allToAll(const void* give, void* take, std::size_t count) = 0;
  virtual void barrier() = 0;
  virtual void send(const void* data, std::size_t count, int to) = 0;
  virtual void receive(void* data, std::size_t count, int from) = 0;

  /// Whether threads of its own do the work: then they need the cores while a rank waits.
  virtual bool hasThreads() const { return false; }
  /// Whether its ranks may be on several hosts: then each has a board of its own, and they meet by
  /// its barrier. Where they run is not for us to say.
  virtual bool isApart() const { return false; }

  /// Memory of so many bytes.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) {
    constexpr auto kPage = std::align_val_t(4096);
    return {static_cast<std::byte*>(::operator new(bytes, kPage)),
            [](std::byte* data) { ::operator delete(data, kPage); }};
  }
};

class Member {
 public:
  Member(Contestant& contestant, Board& board, int number)
      : contestant_(contestant),
        board_(board),
        number_(number),
        slot_(contestant.isApart() ? 0 : contestant.rank()),
        crowded_(contestant.hasThreads() || contestant.isApart() ||
                 contestant.size() > static_cast<int>(std::thread::hardware_concurrency())) {
    if (!crowded_ && !board.isRoaming) {  // a core for each
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
    board_.startNs[number_][slot_] = static_cast<std::uint64_t>(now.count());
    board_.held[number_][slot_] = holding();
    if (contestant_.rank() == 0) {
      std::snprintf(board_.version[number_], Board::kMostVersion, "%s",
                    contestant_.version().c_str());
    }
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
      if (!hasWorked_ && isOfLibrary(board_.task.op)) {
        hasWorked_ = true;
        board_.firstNs[number_][slot_] = board_.nanoseconds[slot_][0];
        board_.heldAfter[number_][slot_] = holding();
      }
      board_.preemptions[number_][slot_] = preemptions();
      board_.finished.fetch_add(1, std::memory_order_acq_rel);
      wakeAll(board_.finished);
    }
  }

  /// Does `task`, and leaves on the board how long each operation took.
  void perform(const Task& task) {
    reduction_ = reduces(task.op) ? task.reduction : Reduction::SUM;
    if (!contestant_.use(task.element, reduction_)) {
      board_.lacking.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    element_ = task.element;
    root_ = task.root;
    const std::size_t width = bytesOf(element_);
    const auto ranks = static_cast<std::size_t>(contestant_.size());
    const std::size_t part = task.bytes / width / ranks;  // where a vector is cut
    const std::size_t count = isWhole(task.op) ? task.bytes / width : part * ranks;
    const std::size_t given = isWhole(task.op) ? count : part;
    const Buffer in = makeBuffer(count * width);
    const Buffer out = makeBuffer(count * width);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < (task.inARow ? 1 : task.count); ++i) {
      write(in.get(), count);
      board_.nanoseconds[slot_][i] = timed([&] { run(task.op, in.get(), out.get(), given); });
      if (task.isChecked && (i == 0 || i + 1 == task.count)) {
        wrong += check(task.op, in.get(), out.get(), count);
      }
    }
    if (task.inARow) {
      std::memset(in.get(), 0, count * width);  // sums that stay what they are
      const std::uint64_t all = timed([&] {
        for (std::uint64_t i = 0; i < task.count; ++i) {
          run(task.op, in.get(), out.get(), given);
        }
      });
      board_.nanoseconds[slot_][0] = all / std::max<std::uint64_t>(task.count, 1);
    }
    board_.wrong.fetch_add(wrong, std::memory_order_relaxed);
  }

 private:
  static std::uint64_t preemptions() {
    rusage used{};
    return ::getrusage(RUSAGE_SELF, &used) == 0 ? static_cast<std::uint64_t>(used.ru_nivcsw) : 0;
  }
  static Holding holding() { return {.memoryKib = memoryKib(), .connections = connections()}; }
  /// Sockets that are connected by TCP.
  static std::uint64_t connections() {
    std::uint64_t count = 0;
    rlimit limit{};
    const rlim_t most = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
    for (int fd = 0; fd < static_cast<int>(std::min<rlim_t>(most, 65'536)); ++fd) {
      sockaddr_storage peer{};
      socklen_t length = sizeof peer;
      const bool isConnected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0;
      count += isConnected && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) ? 1 : 0;
    }
    return count;
  }
  /// 0 when the kernel does not tell.
  static std::uint64_t memoryKib() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string line; std::getline(file, line);) {
      if (unsigned long kib = 0; std::sscanf(line.c_str(), "Pss: %lu kB", &kib) == 1) {
        return kib;
      }
    }
    return 0;
  }

  using Buffer = std::shared_ptr<std::byte>;

  Buffer makeBuffer(std::size_t bytes) {
    Buffer buffer = contestant_.allocate(bytes + 1);
    std::memset(buffer.get(), 0, bytes + 1);
    return buffer;
  }

  /// What rank `rank` has at `i`: small, so that sums of floats are exact. Factors are 1 or 2, and
  /// of few ranks, so that products are.
  static constexpr std::size_t kPeriod = 61;
  static constexpr int kFactors = 8;
  double valueOf(int rank, std::size_t i) const {
    const auto value = static_cast<double>(i % kPeriod) + rank;
    return reduction_ != Reduction::PROD ? value : rank < kFactors ? 1 + std::fmod(value, 2) : 1;
  }
  /// What a reduction makes of all ranks' elements at `i`.
  double reduced(std::size_t i) const {
    const int ranks = contestant_.size();
    const double sum = ranks * valueOf(0, i) + ranks * (ranks - 1) / 2.0;
    switch (reduction_) {
      case Reduction::SUM:
        return sum;
      case Reduction::AVG:
        return sum / ranks;
      case Reduction::MIN:
        return valueOf(0, i);
      case Reduction::MAX:
        return valueOf(ranks - 1, i);
      case Reduction::PROD:
        break;
    }
    double product = 1;
    for (int rank = 0; rank < std::min(ranks, kFactors); ++rank) {
      product *= valueOf(rank, i);
    }
    return product;
  }
  /// Writes all of a vector. Fast: it is done before every operation.
  void write(std::byte* data, std::size_t count) const {
    const std::size_t width = bytesOf(element_);
    const std::size_t first = std::min(count, kPeriod);
    for (std::size_t i = 0; i < first; ++i) {
      putElement(element_, data + i * width, valueOf(contestant_.rank(), i));
    }
    // Twice as much each time, but by pieces that stay in the cache, as what was written does.
    for (std::size_t done = first; done < count;) {
      const std::size_t more = std::min({done, count - done, kPeriod * 64});
      std::memcpy(data + done * width, data, more * width);
      done += more;
    }
  }

  static bool isWhole(Op op) {
    return op != Op::ALL_GATHER && op != Op::REDUCE_SCATTER && op != Op::ALL_TO_ALL &&
           op != Op::GATHER && op != Op::SCATTER;
  }

  /// Not one of those that show what the machine can do.
  static bool isOfLibrary(Op op) {
    return op != Op::COPY && op != Op::READ_MODIFY && op != Op::LINE_FLIGHT;
  }

  static bool reduces(Op op) {
    return op == Op::ALL_REDUCE || op == Op::REDUCE || op == Op::REDUCE_SCATTER;
  }

  /// Nanoseconds of `body`, which all ranks begin together.
  template <typename Body>
  std::uint64_t timed(Body body) {
    if (contestant_.isApart()) {
      contestant_.barrier();
    } else {
      meet(board_, crowded_);
    }
    const auto start = std::chrono::steady_clock::now();
    body();
    const auto end = std::chrono::steady_clock::now();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(end - start).count());
  }

  void run(Op op, std::byte* in, std::byte* out, std::size_t count) {
    switch (op) {
      case Op::ALL_REDUCE:
        return contestant_.allReduce(in, count);
      case Op::REDUCE:
        return contestant_.reduce(in, count, root_);
      case Op::BROADCAST:
        return contestant_.broadcast(in, count, root_);
      case Op::ALL_GATHER:
        return contestant_.allGather(in, out, count);
      case Op::GATHER:
        return contestant_.gather(in, out, count, root_);
      case Op::SCATTER:
        return contestant_.scatter(in, out, count, root_);
      case Op::REDUCE_SCATTER:
        return contestant_.reduceScatter(in, out, count);
      case Op::ALL_TO_ALL:
        return contestant_.allToAll(in, out, count);
      case Op::BARRIER:
        return contestant_.barrier();
      case Op::PING_PONG:
        return pingPong(in, out, count);
      case Op::COPY:
        std::memcpy(out, in, count * bytesOf(element_));
        return;
      case Op::READ_MODIFY:
        return change(in, count * bytesOf(element_));
      case Op::LINE_FLIGHT:
        return fly();
      case Op::QUIT:
        return;
    }
  }

  void pingPong(std::byte* in, std::byte* out, std::size_t count) {
    if (contestant_.rank() == 0) {
      contestant_.send(in, count, 1);
      contestant_.receive(out, count, 1);
    } else if (contestant_.rank() == 1) {
      contestant_.receive(out, count, 0);
      contestant_.send(out, count, 0);
    }
  }

  /// Reads and writes every byte once.
  static void change(std::byte* data, std::size_t bytes) {
    using Wide __attribute__((vector_size(32), aligned(1), may_alias)) = std::uint8_t;
    for (std::size_t i = 0; i + sizeof(Wide) <= bytes; i += sizeof(Wide)) {
      auto* const wide = reinterpret_cast<Wide*>(data + i);
      *wide += 1;
    }
  }

  /// A word to the other core and back, of which half is one flight.
  void fly() {
    const int me = contestant_.rank();
    if (me > 1) {
      return;
    }
    const auto await = [&](const std::atomic<std::uint32_t>& word, std::uint32_t wanted) {
      for (int looks = 0; word.load(std::memory_order_acquire) != wanted; ++looks) {
        if (crowded_ || looks > 20'000) {  // as in meet()
          ::sched_yield();
        }
      }
    };
    std::atomic<std::uint32_t>& there = board_.flight[0];
    std::atomic<std::uint32_t>& back = board_.flight[1];
    const std::uint32_t next = (me == 0 ? there : back).load(std::memory_order_relaxed) + 1;
    if (me == 0) {
      there.store(next, std::memory_order_release);
      await(back, next);
    } else {
      await(there, next);
      back.store(next, std::memory_order_release);
    }
  }

  /// How many elements are not what they must be.
  std::uint64_t check(Op op, const std::byte* in, const std::byte* out, std::size_t count) const {
    const int ranks = contestant_.size();
    const int me = contestant_.rank();
    const std::size_t part = count / static_cast<std::size_t>(ranks);
    const std::size_t before = static_cast<std::size_t>(me) * part;
    const auto sum = [&](std::size_t i) { return reduced(i); };
    const auto each = [&](const std::byte* data, std::size_t many, auto right) {
      std::uint64_t wrong = 0;
      for (std::size_t i = 0; i < many; ++i) {
        const double got = getElement(element_, data + i * bytesOf(element_));
        wrong += isSame(element_, got, right(i)) ? 0 : 1;
      }
      return wrong;
    };
    const auto collected = [&](std::size_t i) {
      return valueOf(static_cast<int>(i / part), i % part);
    };
    switch (op) {
      case Op::ALL_REDUCE:
        return each(in, count, sum);
      case Op::REDUCE:
        return me != root_ ? 0 : each(in, count, sum);
      case Op::BROADCAST:
        return each(in, count, [&](std::size_t i) { return valueOf(root_, i); });
      case Op::ALL_GATHER:
        return each(out, count, collected);
      case Op::GATHER:
        return me != root_ ? 0 : each(out, count, collected);
      case Op::SCATTER:
        return each(out, part, [&](std::size_t i) { return valueOf(root_, before + i); });
      case Op::REDUCE_SCATTER:
        return each(out, part, [&](std::size_t i) { return sum(before + i); });
      case Op::ALL_TO_ALL:
        return each(out, count, [&](std::size_t i) {
          return valueOf(static_cast<int>(i / part), before + i % part);
        });
      case Op::PING_PONG:
        return me > 1 ? 0 : each(out, count, [&](std::size_t i) { return valueOf(0, i); });
      case Op::COPY:
        return each(out, count, [&](std::size_t i) { return valueOf(me, i); });
      case Op::BARRIER:
      case Op::READ_MODIFY:
      case Op::LINE_FLIGHT:
      case Op::QUIT:
        break;
    }
    return 0;
  }

  Contestant& contestant_;
  Board& board_;
  const int number_;
  const int slot_;  // on the board
  const bool crowded_;
  bool hasWorked_ = false;
  Element element_ = Element::FLOAT32;
  Reduction reduction_ = Reduction::SUM;
  int root_ = 0;
};

/// The main() of a contestant's rank.
inline int serveBoard(Contestant& contestant) {
  const char* path = std::getenv(kBoardVariable);
  const char* number = std::getenv(kContestantVariable);
  Board* board = path == nullptr || number == nullptr ? nullptr : openBoard(path);
  if (board == nullptr) {
    std::fprintf(stderr, "this program is started by unisono_compare and unisono bench\n");
    return 2;
  }
  Member(contestant, *board, std::atoi(number)).serve();
  return 0;
}

}  // namespace unisono::bench
