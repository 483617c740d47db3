// group_kill: ranks that die while others work with them.
//
// In every round a few processes form a group and run random operations, of which they wait for
// some while others run them; at a random moment one of them is killed. Every survivor must learn
// of it in time and by name, no result may be wrong, and afterwards nothing may be left behind.
//
//   group_kill [--rounds N] [--seed S] [--bound-ms MS] [--json]
//
// Ends with 1, and a line that names the seed and the round, when a promise was broken.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "unisono/store/file_store.hpp"

#include "backend/native/native_backend.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "life/monitor.hpp"
#include "support/server_process.hpp"
#include "support/support.hpp"
#include "support/watch.hpp"

namespace unisono::stress {
namespace {

using test::eventually;
using test::isLocalSocket;
using test::nowNs;
using test::Process;

constexpr int kMostRanks = 8;

struct Settings {
  int rounds = 10;
  std::uint64_t seed = randomSeed();
  Milliseconds bound{2500};  // from a death to the last survivor's error
  bool json = false;
};

/// What a survivor saw. In memory that all processes of a round share.
struct Seen {
  std::atomic<std::int64_t> calledNs;  // when it last called an operation
  std::atomic<std::int64_t> errorNs;   // when it threw; 0: not yet
  std::atomic<std::int64_t> operations;
  std::atomic<std::int32_t> reason;
  std::atomic<std::int32_t> culprit;
  std::atomic<bool> wrong;
  char socket[64];  // the name of its monitor's
  char text[512];
};
struct Board {
  Seen seen[kMostRanks];
};

/// One operation with known results; whether they were right.
class Rank {
 public:
  Rank(int rank, int size, const std::string& path, Milliseconds patience)
      : rank_(rank),
        size_(size),
        backend_({.store = std::make_shared<FileStore>(path, size),
                  .rank = rank,
                  .size = size,
                  .options = {.timeout = patience, .groupName = "stress"}}) {
    backend_.setTimeout(std::chrono::seconds(20));
  }

  bool operate(std::uint64_t choice, Seen& seen) {
    static constexpr std::size_t kCounts[] = {1, 13, 1000, 40'000, 700'000};
    const std::size_t count = kCounts[choice / 16 % 5];
    const auto root = static_cast<int>(choice / 256 % static_cast<std::uint64_t>(size_));
    std::vector<std::int64_t> data(count, rank_ + 1);
    CollectiveArgs args;
    args.asyncOp = choice / 4096 % 2 == 0;
    std::int64_t right = 0;
    switch (choice % 5) {
      case 0:
        args.type = OpType::ALLREDUCE;
        args.outputs = Tensor(data);
        right = static_cast<std::int64_t>(size_) * (size_ + 1) / 2;
        break;
      case 1:
        args.type = OpType::BROADCAST;
        args.root = root;
        args.outputs = Tensor(data);
        right = root + 1;
        break;
      case 2:
        return allToAll(1 + count / static_cast<std::size_t>(size_), seen);
      case 3:
        return exchange(count, seen);
      default:
        args.type = OpType::BARRIER;
        right = rank_ + 1;
        break;
    }
    seen.calledNs.store(nowNs());
    backend_.submit(std::move(args))->wait();
    return std::all_of(data.begin(), data.end(), [&](std::int64_t v) { return v == right; });
  }

 private:
  bool allToAll(std::size_t count, Seen& seen) {
    const auto size = static_cast<std::size_t>(size_);
    std::vector<std::int64_t> in(count * size, rank_);
    std::vector<std::int64_t> out(count * size);
    CollectiveArgs args;
    args.type = OpType::ALLTOALL_BASE;
    args.inputs = Tensor(in);
    args.outputs = Tensor(out);
    seen.calledNs.store(nowNs());
    backend_.submit(std::move(args))->wait();
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i] != static_cast<std::int64_t>(i / count)) {
        return false;
      }
    }
    return true;
  }

  /// To the next rank, and from the one before.
  bool exchange(std::size_t count, Seen& seen) {
    const int before = (rank_ + size_ - 1) % size_;
    std::vector<std::int64_t> out(count, rank_);
    std::vector<std::int64_t> in(count, -1);
    CollectiveArgs send;
    send.type = OpType::SEND;
    send.peer = (rank_ + 1) % size_;
    send.inputs = Tensor(out);
    CollectiveArgs recv;
    recv.type = OpType::RECV;
    recv.peer = before;
    recv.outputs = Tensor(in);
    seen.calledNs.store(nowNs());
    const WorkPtr sending = backend_.submit(std::move(send));
    backend_.submit(std::move(recv))->wait();
    sending->wait();
    return std::all_of(in.begin(), in.end(), [&](std::int64_t v) { return v == before; });
  }

  const int rank_;
  const int size_;
  NativeBackend backend_;
};

/// The life of one rank: works until an operation fails, and writes down how it did.
int work(int rank, int size, const std::string& path, Milliseconds patience, std::uint64_t seed,
         Seen& seen) {
  try {
    const std::string& socket = Monitor::instance().socketName();
    std::memcpy(seen.socket, socket.data(), std::min(socket.size(), sizeof seen.socket - 1));
    Rank self(rank, size, path, patience);
    SeededRng rng(seed);  // the same on all ranks
    for (;;) {
      if (!self.operate(rng.next(), seen)) {
        seen.wrong.store(true);
        return 1;
      }
      seen.operations.fetch_add(1);
    }
  } catch (const DistError& error) {
    const std::string text = error.what();
    std::memcpy(seen.text, text.data(), std::min(text.size(), sizeof seen.text - 1));
    seen.reason.store(static_cast<std::int32_t>(error.reason()));
    seen.culprit.store(error.culprits().empty() ? -1 : error.culprits().front());
    seen.errorNs.store(nowNs());
  }
  return 0;
}

struct Totals {
  std::int64_t operations = 0;
  std::vector<std::int64_t> detectUs;
  std::string violation;
};

class Round {
 public:
  Round(const Settings& settings, int number)
      : settings_(settings),
        rng_(settings.seed * 1'000'003 + static_cast<std::uint64_t>(number)),
        size_(2 + static_cast<int>(rng_.next() % 4) + (number % 10 == 9 ? 3 : 0)),
        board_(static_cast<Board*>(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Round() { ::munmap(board_, sizeof(Board)); }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  /// What was broken; empty for nothing.
  std::string run(Totals& totals) {
    const test::TempDir folder;
    const std::uint64_t seed = rng_.next();
    // Most often amid the work; sometimes while the group forms, and may wait for who never came.
    const bool early = rng_.next() % 8 == 0;
    const Milliseconds patience(early ? 1000 : 20'000);
    for (int rank = 0; rank < size_; ++rank) {
      ranks_.push_back(std::make_unique<Process>([&, rank] {
        return work(rank, size_, folder.file("store"), patience, seed, board_->seen[rank]);
      }));
    }
    if (!early && !eventually([&] { return leastOperations() >= 3; })) {
      return str("the group did not get to work: ", board_->seen[0].text);
    }
    pause(Milliseconds(rng_.next() % 50));
    const int victim = static_cast<int>(rng_.next() % static_cast<std::uint64_t>(size_));
    const std::int64_t killed = nowNs();
    ranks_[static_cast<std::size_t>(victim)]->kill();
    std::string broken = judge(victim, killed, totals);
    ranks_.clear();
    for (int rank = 0; broken.empty() && rank < size_; ++rank) {
      const std::string socket = board_->seen[rank].socket;
      if (!socket.empty() && isLocalSocket(socket)) {
        broken = str("the local socket of rank ", rank, " was left behind");
      }
    }
    return broken;
  }

 private:
  static void pause(Milliseconds length) {
    pauseFor(length, {.deadline = Deadline::never(), .subject = {}});
  }
  std::int64_t leastOperations() const {
    std::int64_t least = board_->seen[0].operations.load();
    for (int rank = 1; rank < size_; ++rank) {
      least = std::min(least, board_->seen[rank].operations.load());
    }
    return least;
  }

  std::string judge(int victim, std::int64_t killed, Totals& totals) {
    for (int rank = 0; rank < size_; ++rank) {
      Seen& seen = board_->seen[rank];
      totals.operations += seen.operations.load();
      if (seen.wrong.load()) {
        return str("rank ", rank, " got a wrong result");
      }
      if (rank == victim) {
        continue;
      }
      if (!eventually([&] { return seen.errorNs.load() != 0 || seen.wrong.load(); })) {
        return str("rank ", rank, " did not learn that rank ", victim, " was killed");
      }
      // Who was busy elsewhere can be told only when it calls.
      const std::int64_t since = std::max(killed, seen.calledNs.load());
      const std::int64_t lateUs = (seen.errorNs.load() - since) / 1000;
      const auto reason = static_cast<Reason>(seen.reason.load());
      // A victim that died before it told anybody who it is cannot be named by others.
      const bool formed = seen.operations.load() > 0;
      if (formed && (reason != Reason::PEER_DEAD || seen.culprit.load() != victim)) {
        return str("rank ", rank, " did not blame rank ", victim, ": ", seen.text);
      }
      if (formed) {
        totals.detectUs.push_back(lateUs);
      }
      if (formed && lateUs > settings_.bound.count() * 1000) {
        return str("rank ", rank, " learnt of the death after ", lateUs / 1000, " ms");
      }
    }
    return "";
  }

  const Settings& settings_;
  SeededRng rng_;
  const int size_;
  Board* const board_;
  std::vector<std::unique_ptr<Process>> ranks_;
};

std::int64_t quantile(std::vector<std::int64_t> values, double part) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

std::optional<Settings> parse(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--json") {
      settings.json = true;
    } else if (i + 1 == count) {
      return std::nullopt;
    } else if (name == "--rounds") {
      settings.rounds = std::atoi(arguments[++i]);
    } else if (name == "--seed") {
      settings.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--bound-ms") {
      settings.bound = Milliseconds(std::atoi(arguments[++i]));
    } else {
      return std::nullopt;
    }
  }
  return settings;
}

int main(int count, char** arguments) {
  const auto settings = parse(count, arguments);
  if (!settings) {
    std::fputs("usage: group_kill [--rounds N] [--seed S] [--bound-ms MS] [--json]\n", stderr);
    return 2;
  }
  Totals totals;
  for (int number = 0; number < settings->rounds; ++number) {
    const std::string broken = Round(*settings, number).run(totals);
    if (!broken.empty()) {
      std::fprintf(stderr, "group_kill: round %d with seed %llu: %s\n", number,
                   static_cast<unsigned long long>(settings->seed), broken.c_str());
      return 1;
    }
    if ((number + 1) % 50 == 0) {
      std::fprintf(stderr, "%d rounds\n", number + 1);
    }
  }
  const std::int64_t p50 = quantile(totals.detectUs, 0.5);
  const std::int64_t p99 = quantile(totals.detectUs, 0.99);
  const std::int64_t worst = quantile(totals.detectUs, 1.0);
  std::printf(settings->json
                  ? "{\"rounds\":%d,\"operations\":%lld,\"survivors\":%zu,\"told after p50 "
                    "ms\":%.2f,\"told after p99 ms\":%.2f,\"told after worst ms\":%.2f,\"hangs\":0,"
                    "\"wrong culprits\":0,\"left behind\":0}\n"
                  : "%d rounds, %lld operations: %zu survivors were told of the death, by name, "
                    "after %.2f ms (median), %.2f ms (p99), %.2f ms (worst)\n",
              settings->rounds, static_cast<long long>(totals.operations), totals.detectUs.size(),
              static_cast<double>(p50) / 1000, static_cast<double>(p99) / 1000,
              static_cast<double>(worst) / 1000);
  return 0;
}

}  // namespace
}  // namespace unisono::stress

int main(int count, char** arguments) {
  return unisono::stress::main(count, arguments);
}
