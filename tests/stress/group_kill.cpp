// group_kill: ranks that die while others work with them.
//
// In every round a few processes form a group and run random operations, of which they wait for
// some while others run them; at a random moment one or two of them are killed: amid the work,
// while the group forms, or while it is destroyed; now and then they have children that live on.
// Every survivor must learn of it in time and by name, or come to its end; no result may be wrong,
// and afterwards nothing may be left behind.
//
//   group_kill [--transport T] [--rounds N] [--seed S] [--judge] [--json]
//
// Ends with 1, and a line that names the seed and the round, when a promise was broken. With
// --judge times are judged as promised, and not as a machine allows that does other things too.
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

#include "unisono/group/group.hpp"
#include "unisono/store/file_store.hpp"

#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "fault/chores.hpp"
#include "fault/row.hpp"
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
  std::string transport{};  // UNISONO_TRANSPORT of all ranks
  int rounds = 10;
  std::uint64_t seed = randomSeed();
  bool judge = false;
  bool json = false;

  /// From a death to the last survivor's error.
  Milliseconds bound() const { return Milliseconds(judge ? 250 : 2500); }
};
constexpr std::int64_t kMostP99Us = 25'000;  // of that

/// What a survivor saw. In memory that all processes of a round share.
struct Seen {
  std::atomic<std::int64_t> calledNs;  // when it last called an operation
  std::atomic<std::int64_t> errorNs;   // when it threw; 0: not yet
  std::atomic<bool> left;              // it has destroyed the group
  std::atomic<std::int64_t> operations;
  std::atomic<std::int32_t> reason;
  std::atomic<std::int32_t> culprit;
  std::atomic<bool> wrong;
  std::atomic<std::int64_t> child;  // a process that it has started; 0: none
  char socket[64];                  // the name of its monitor's
  char text[512];
};
struct Board {
  Seen seen[kMostRanks];
  std::atomic<bool> over;  // all who live know
};

/// When the victims die.
enum class Moment : std::uint8_t { FORMING, WORKING, LEAVING };

/// What all ranks of a round know.
struct Plan {
  int size = 0;
  Moment moment = Moment::WORKING;
  std::string path{};
  std::uint64_t seed = 0;
  bool forks = false;  // every rank has a child, which has all that it has

  /// Who waits for one that never came should not wait long.
  Milliseconds patience() const { return Milliseconds(moment == Moment::FORMING ? 1000 : 20'000); }
  /// After so many operations everybody destroys the group.
  std::int64_t operations() const {
    return moment == Moment::LEAVING ? kFew : std::numeric_limits<std::int64_t>::max();
  }
  static constexpr std::int64_t kFew = 5;
};

/// A child that does nothing; it has the memory and the descriptors of this process.
void startChild(Seen& seen) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) {
      ::pause();
    }
  }
  seen.child.store(child);
}

/// Operations of one group; false after a wrong result.
bool operate(int rank, const Plan& plan, Seen& seen) {
  Group group = init({.store = std::make_shared<FileStore>(plan.path, plan.size),
                      .rank = rank,
                      .size = plan.size,
                      .timeout = plan.patience()});
  group.processGroup().setTimeout(std::chrono::seconds(20));
  if (plan.forks) {
    startChild(seen);
  }
  SeededRng rng(plan.seed);  // the same on all ranks
  const auto calling = [&] { seen.calledNs.store(nowNs()); };
  const auto wrong = [&] { seen.wrong.store(true); };
  while (seen.operations.load() < plan.operations()) {
    fault::Chore chore = fault::Chore::any(rng.next(), plan.size, false);
    chore.registered = rng.next() % 4 == 0;
    if (!fault::carryOut(group, chore, calling, wrong)) {
      wrong();
      return false;
    }
    seen.operations.fetch_add(1);
  }
  return true;
}

/// The life of one rank: works until an operation fails, and writes down how it did.
int work(int rank, const Plan& plan, Board& board) {
  Seen& seen = board.seen[rank];
  try {
    const std::string& socket = Monitor::instance().socketName();
    std::memcpy(seen.socket, socket.data(), std::min(socket.size(), sizeof seen.socket - 1));
    if (!operate(rank, plan, seen)) {
      return 1;
    }
    seen.left.store(true);
  } catch (const DistError& error) {
    const std::string text = error.what();
    std::memcpy(seen.text, text.data(), std::min(text.size(), sizeof seen.text - 1));
    seen.reason.store(static_cast<std::int32_t>(error.reason()));
    seen.culprit.store(error.culprits().empty() ? -1 : error.culprits().front());
    seen.errorNs.store(nowNs());
    // By TCP others may be about to ask this rank what it knows. Who finds nobody there any more
    // takes it for dead.
    static_cast<void>(eventually([&] { return board.over.load(); }));
  }
  return 0;
}

struct Totals {
  std::int64_t operations = 0;
  int pairs = 0;    // rounds with two victims
  int leaving = 0;  // rounds in which the group was being destroyed
  int forming = 0;  // or formed
  int forked = 0;   // rounds in which all had children
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
    plan.forks = rng_.next() % 8 == 0;
    for (int rank = 0; rank < size_; ++rank) {
      ranks_.push_back(std::make_unique<Process>([&, rank] { return work(rank, plan, *board_); }));
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
    totals.forming += plan.moment == Moment::FORMING ? 1 : 0;
    totals.forked += plan.forks ? 1 : 0;
    const std::string broken = judge(plan, killed, totals);
    board_->over.store(true);
    for (const auto& each : ranks_) {
      static_cast<void>(eventually([&] { return each->ended(); }));
    }
    ranks_.clear();
    endChildren();
    return broken.empty() ? whatIsLeft() : broken;
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

  /// Those of the ranks are ours by now.
  void endChildren() {
    for (int rank = 0; rank < size_; ++rank) {
      const auto child = static_cast<pid_t>(board_->seen[rank].child.load());
      if (child > 0) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
      }
    }
  }

  std::string whatIsLeft() const {
    for (int rank = 0; rank < size_; ++rank) {
      const std::string socket = board_->seen[rank].socket;
      if (!socket.empty() && isLocalSocket(socket)) {
        return str("the local socket of rank ", rank, " was left behind");
      }
    }
    try {
      fault::checkNothingLeft();
    } catch (const fault::Broken& broken) {
      return broken.what();
    }
    return "";
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
      const std::string complaint = seen.operations.load() > 0
                                        ? judgeWorking(rank, killed, victims, totals)
                                        : judgeForming(rank, plan, killed, victims);
      if (!complaint.empty()) {
        return complaint;
      }
    }
    return "";
  }

  std::string judgeWorking(int rank, std::int64_t killed, const std::string& victims,
                           Totals& totals) {
    const Seen& seen = board_->seen[rank];
    const auto reason = static_cast<Reason>(seen.reason.load());
    if (reason != Reason::PEER_DEAD || !isVictim(seen.culprit.load())) {
      return str("rank ", rank, " did not blame rank ", victims, ": ", seen.text);
    }
    // Who was busy elsewhere can be told only when it calls.
    const std::int64_t since = std::max(killed, seen.calledNs.load());
    const std::int64_t lateUs = (seen.errorNs.load() - since) / 1000;
    totals.detectUs.push_back(lateUs);
    return lateUs > settings_.bound().count() * 1000
               ? str("rank ", rank, " learnt of the death after ", lateUs / 1000, " ms")
               : "";
  }

  /// A victim that died before it told anybody who it is cannot be named by others, who wait for
  /// it as long as they would for any; and who was told of it has left before others were.
  std::string judgeForming(int rank, const Plan& plan, std::int64_t killed,
                           const std::string& victims) {
    const Seen& seen = board_->seen[rank];
    const auto reason = static_cast<Reason>(seen.reason.load());
    if (reason != Reason::PEER_DEAD && reason != Reason::PEER_LEFT && reason != Reason::TIMEOUT) {
      return str("rank ", rank, " was not told that rank ", victims, " does not come: ", seen.text);
    }
    const std::int64_t lateMs = (seen.errorNs.load() - killed) / 1'000'000;
    return lateMs > (plan.patience() + settings_.bound()).count()
               ? str("rank ", rank, " waited ", lateMs, " ms for rank ", victims)
               : "";
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
    } else if (name == "--judge") {
      settings.judge = true;
    } else if (i + 1 == count) {
      return std::nullopt;
    } else if (name == "--transport") {
      settings.transport = arguments[++i];
    } else if (name == "--rounds") {
      settings.rounds = std::atoi(arguments[++i]);
    } else if (name == "--seed") {
      settings.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else {
      return std::nullopt;
    }
  }
  return settings;
}

void print(const Totals& totals, const Settings& settings) {
  const auto inMs = [&](double part) {
    return static_cast<double>(quantile(totals.detectUs, part)) / 1000;
  };
  std::printf(settings.json
                  ? "{\"rounds\":%d,\"rounds with two victims\":%d,\"rounds in formation\":%d,"
                    "\"rounds in destroy\":%d,\"rounds with children\":%d,"
                    "\"operations\":%lld,\"survivors\":%zu,\"told after p50 "
                    "ms\":%.2f,\"told after p99 ms\":%.2f,\"told after worst ms\":%.2f,\"hangs\":0,"
                    "\"wrong culprits\":0,\"left behind\":0}\n"
                  : "%d rounds (%d with two victims, %d in formation, %d in destroy, %d with "
                    "children), %lld operations: %zu survivors were told of the death, by name, "
                    "after %.2f ms (median), %.2f ms (p99), %.2f ms (worst)\n",
              settings.rounds, totals.pairs, totals.forming, totals.leaving, totals.forked,
              static_cast<long long>(totals.operations), totals.detectUs.size(), inMs(0.5),
              inMs(0.99), inMs(1.0));
}

int main(int count, char** arguments) {
  const auto settings = parse(count, arguments);
  if (!settings) {
    std::fputs("usage: group_kill [--transport T] [--rounds N] [--seed S] [--judge] [--json]\n",
               stderr);
    return 2;
  }
  if (!settings->transport.empty()) {
    ::setenv("UNISONO_TRANSPORT", settings->transport.c_str(), 1);
  }
  fault::watchWhatIsLeft();
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
  print(totals, *settings);
  const std::int64_t p99 = quantile(totals.detectUs, 0.99);
  if (settings->judge && p99 > kMostP99Us) {
    std::fprintf(stderr,
                 "group_kill: seed %llu: one survivor in a hundred was told after %lld us\n",
                 static_cast<unsigned long long>(settings->seed), static_cast<long long>(p99));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace unisono::stress

int main(int count, char** arguments) {
  return unisono::stress::main(count, arguments);
}
