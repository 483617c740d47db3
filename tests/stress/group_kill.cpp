// group_kill: ranks that die while others work with them.
//
// In every round a few processes form a group and run random operations, of which they wait for
// some while others run them; at a random moment one or two of them are killed: amid the work,
// while the group forms, or while it is destroyed. Every survivor must learn of it in time and by
// name, or come to its end; no result may be wrong, and afterwards nothing may be left behind.
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
#include <limits>
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
  std::atomic<bool> left;              // it has destroyed the group
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

/// When the victims die.
enum class Moment : std::uint8_t { FORMING, WORKING, LEAVING };

/// What all ranks of a round know.
struct Plan {
  int size = 0;
  Moment moment = Moment::WORKING;
  std::string path{};
  std::uint64_t seed = 0;

  /// Who waits for one that never came should not wait long.
  Milliseconds patience() const { return Milliseconds(moment == Moment::FORMING ? 1000 : 20'000); }
  /// After so many operations everybody destroys the group.
  std::int64_t operations() const {
    return moment == Moment::LEAVING ? kFew : std::numeric_limits<std::int64_t>::max();
  }
  static constexpr std::int64_t kFew = 5;
};

/// The life of one rank: works until an operation fails, and writes down how it did.
int work(int rank, const Plan& plan, Seen& seen) {
  try {
    const std::string& socket = Monitor::instance().socketName();
    std::memcpy(seen.socket, socket.data(), std::min(socket.size(), sizeof seen.socket - 1));
    {
      Rank self(rank, plan.size, plan.path, plan.patience());
      SeededRng rng(plan.seed);  // the same on all ranks
      while (seen.operations.load() < plan.operations()) {
        if (!self.operate(rng.next(), seen)) {
          seen.wrong.store(true);
          return 1;
        }
        seen.operations.fetch_add(1);
      }
    }
    seen.left.store(true);
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
  int pairs = 0;    // rounds with two victims
  int leaving = 0;  // rounds in which the group was being destroyed
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
    Plan plan{.size = size_, .path = folder.file("store"), .seed = rng_.next()};
    // Most often amid the work.
    const std::uint64_t chance = rng_.next() % 8;
    plan.moment = chance == 0 ? Moment::FORMING : chance == 1 ? Moment::LEAVING : Moment::WORKING;
    for (int rank = 0; rank < size_; ++rank) {
      ranks_.push_back(
          std::make_unique<Process>([&, rank] { return work(rank, plan, board_->seen[rank]); }));
    }
    if (plan.moment != Moment::FORMING && !eventually([&] { return leastOperations() >= 3; })) {
      return str("the group did not get to work: ", board_->seen[0].text);
    }
    if (plan.moment != Moment::LEAVING) {  // that does not last long
      pause(Milliseconds(rng_.next() % 50));
    }
    chooseVictims();
    const std::int64_t killed = nowNs();
    for (const int victim : victims_) {
      ranks_[static_cast<std::size_t>(victim)]->kill();
    }
    totals.pairs += victims_.size() == 2 ? 1 : 0;
    totals.leaving += plan.moment == Moment::LEAVING ? 1 : 0;
    std::string broken = judge(plan, killed, totals);
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

  void chooseVictims() {
    const auto size = static_cast<std::uint64_t>(size_);
    victims_ = {static_cast<int>(rng_.next() % size)};
    if (size_ > 2 && rng_.next() % 4 == 0) {
      const auto step = static_cast<int>(1 + rng_.next() % (size - 1));
      victims_.push_back((victims_.front() + step) % size_);
    }
  }
  bool isVictim(int rank) const {
    return std::find(victims_.begin(), victims_.end(), rank) != victims_.end();
  }

  std::string judge(const Plan& plan, std::int64_t killed, Totals& totals) {
    const std::string victims =
        victims_.size() == 1 ? str(victims_[0]) : str(victims_[0], " or ", victims_[1]);
    for (int rank = 0; rank < size_; ++rank) {
      Seen& seen = board_->seen[rank];
      totals.operations += seen.operations.load();
      if (seen.wrong.load()) {
        return str("rank ", rank, " got a wrong result");
      }
      if (isVictim(rank)) {
        continue;
      }
      if (!eventually(
              [&] { return seen.errorNs.load() != 0 || seen.wrong.load() || seen.left.load(); })) {
        return str("rank ", rank, " did not learn that rank ", victims, " was killed");
      }
      if (seen.left.load()) {
        if (plan.moment != Moment::LEAVING) {
          return str("rank ", rank, " came to an end that there is not");
        }
        continue;  // it needed none of the victims any more
      }
      // Who was busy elsewhere can be told only when it calls.
      const std::int64_t since = std::max(killed, seen.calledNs.load());
      const std::int64_t lateUs = (seen.errorNs.load() - since) / 1000;
      const auto reason = static_cast<Reason>(seen.reason.load());
      // A victim that died before it told anybody who it is cannot be named by others.
      const bool formed = seen.operations.load() > 0;
      if (formed && (reason != Reason::PEER_DEAD || !isVictim(seen.culprit.load()))) {
        return str("rank ", rank, " did not blame rank ", victims, ": ", seen.text);
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
  std::vector<int> victims_;
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
                  ? "{\"rounds\":%d,\"rounds with two victims\":%d,\"rounds in destroy\":%d,"
                    "\"operations\":%lld,\"survivors\":%zu,\"told after p50 "
                    "ms\":%.2f,\"told after p99 ms\":%.2f,\"told after worst ms\":%.2f,\"hangs\":0,"
                    "\"wrong culprits\":0,\"left behind\":0}\n"
                  : "%d rounds (%d with two victims, %d in destroy), %lld operations: %zu "
                    "survivors were told of the death, by name, "
                    "after %.2f ms (median), %.2f ms (p99), %.2f ms (worst)\n",
              settings->rounds, totals.pairs, totals.leaving,
              static_cast<long long>(totals.operations), totals.detectUs.size(),
              static_cast<double>(p50) / 1000, static_cast<double>(p99) / 1000,
              static_cast<double>(worst) / 1000);
  return 0;
}

}  // namespace
}  // namespace unisono::stress

int main(int count, char** arguments) {
  return unisono::stress::main(count, arguments);
}
