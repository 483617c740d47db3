#include "stress/soak_rank.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <malloc.h>
#include <optional>
#include <stdexcept>
#include <unistd.h>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/group/group.hpp"
#include "unisono/store/file_store.hpp"

#include "base/random.hpp"
#include "base/str.hpp"
#include "stress/soak_op.hpp"
#include "support/memory.hpp"

namespace unisono::stress {
namespace {

using test::Holdings;
using test::nowNs;

constexpr Milliseconds kTimeout = std::chrono::seconds(60);
constexpr std::size_t kMostBytes = 3U << 20U;
constexpr int kDeep = 1000;  // asynchronous operations at once, now and then
constexpr int kWarmUp = 5;   // rounds until a process has all that it keeps
constexpr Milliseconds kTimeToLetGo = std::chrono::seconds(8);

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void write(char* field, std::size_t size, const std::string& text) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

/// One world, as one of its slots sees it.
class World {
 public:
  World(const SoakLife& life, int round, SoakReport& report)
      : life_(life), round_(round), plan_(life.seed, round), report_(report), rng_(plan_.seed) {}

  void run() {
    try {
      doing("init");
      world_ =
          init({.store = std::make_shared<FileStore>(str(life_.folder, "/", round_), plan_.size),
                .rank = plan_.rankOf(life_.slot),
                .size = plan_.size,
                .timeout = kTimeout});
      report_.groups.fetch_add(1);
      for (batch_ = 0; batch_ < plan_.batches; ++batch_) {
        meetFate();
        batch();
      }
      meetFate();
      call("the last barrier", [&] { world_->barrier(); });
    } catch (const DistError& error) {
      judge(error);
      return;
    }
    if (plan_.end != SoakPlan::End::DESTROYED) {
      throw Broken("a world that lost a rank went on to its end");
    }
    doing("destroy");
    destroyProcessGroup(*world_);
  }

 private:
  bool isDoomed() const { return plan_.end != SoakPlan::End::DESTROYED && batch_ >= plan_.when; }
  bool isVictim() const { return plan_.victim == life_.slot; }

  void meetFate() {
    if (plan_.end == SoakPlan::End::DESTROYED || batch_ != plan_.when || !isVictim()) {
      return;
    }
    if (plan_.end == SoakPlan::End::KILLED) {
      ::kill(::getpid(), SIGKILL);
    }
    doing("abort");
    world_->processGroup().abort(nullptr);
  }

  /// Some operations of one group, at once or one after the other.
  void batch() {
    SeededRng rng(rng_.next());  // one number each: not all ranks are in all groups
    // When a rank is lost others leave their groups, one earlier than the other: then only the
    // world knows whom to blame.
    const bool apart = rng.next() % 4 == 0 && !isDoomed();
    std::optional<Group> group = world_;
    if (apart) {
      group = part(rng);
      if (!group) {
        return;
      }
    }
    const bool deep = rng.next() % 16 == 0;
    const int count = deep ? kDeep : 1 + static_cast<int>(rng.next() % 12);
    const SoakOp::Limits limits{
        .mostBytes = deep ? 64 : kMostBytes, .mayRegister = !deep, .mustBeAsync = deep};
    std::vector<SoakOp> open;
    for (int i = 0; i < count; ++i) {
      SoakOp operation(*group, rng.next(), limits);
      call(operation.describe(), [&] { operation.begin(); });
      open.push_back(std::move(operation));
      // Synchronous ones have ended; now and then all are waited for.
      if (i + 1 == count || (!deep && rng.next() % 3 == 0)) {
        endAll(open);
      }
    }
    if (apart) {
      // All stay until all are done: a first message between two ranks needs the memory that the
      // part's rank 0 gives out.
      call("the barrier of a part", [&] { group->barrier(); });
      if (rng.next() % 2 == 0) {
        call("destroy of a part", [&] { destroyProcessGroup(*group); });
      }
    }
  }

  void endAll(std::vector<SoakOp>& open) {
    for (SoakOp& operation : open) {
      call(operation.describe(), [&] {
        if (!operation.end()) {
          throw Broken(str("a wrong result of ", operation.describe()));
        }
      });
      report_.operations.fetch_add(1);
    }
    open.clear();
  }

  /// A part of the world; none if this rank is not in it.
  std::optional<Group> part(SeededRng& rng) {
    const std::uint64_t choice = rng.next();
    std::optional<Group> made;
    if (choice % 2 == 0) {
      const int colors = 1 + static_cast<int>(choice / 2 % 2);
      call("split", [&] { made = world_->split(world_->rank() % colors); });
    } else {
      std::vector<int> ranks;
      for (int rank = 0; rank < plan_.size; ++rank) {
        if (rank == 0 || (choice >> (8U + static_cast<unsigned>(rank))) % 2 == 1) {
          ranks.push_back(rank);
        }
      }
      call("newGroup", [&] { made = world_->newGroup(ranks); });
    }
    report_.groups.fetch_add(made ? 1 : 0);
    return made;
  }

  template <typename Body>
  void call(const std::string& what, Body body) {
    doing(what);
    calledNs_ = nowNs();
    body();
  }
  void doing(const std::string& what) {
    write(report_.doing, sizeof report_.doing, str("batch ", batch_, ": ", what));
  }

  /// Only a world that loses a rank may fail, and everybody blames that one.
  void judge(const DistError& error) {
    const bool killed = plan_.end == SoakPlan::End::KILLED;
    const Reason reason = killed ? Reason::PEER_DEAD : Reason::ABORTED;
    const std::vector<int> culprits = {plan_.victim < 0 ? -1 : plan_.rankOf(plan_.victim)};
    const std::string where = str(report_.doing, ": ", error.what());
    if (plan_.end == SoakPlan::End::DESTROYED) {
      throw Broken(str("nothing had happened, but ", where));
    }
    if (error.reason() != reason || error.culprits() != culprits) {
      throw Broken(
          str("rank ", culprits.front(), killed ? " was killed" : " aborted", ", but ", where));
    }
    const std::int64_t lateUs = (nowNs() - calledNs_) / 1000;
    report_.lateUs.store(std::max(report_.lateUs.load(), lateUs));
    report_.faults.fetch_add(1);
  }

  const SoakLife& life_;
  const int round_;
  const SoakPlan plan_;
  SoakReport& report_;
  SeededRng rng_;
  std::optional<Group> world_;
  int batch_ = 0;
  std::int64_t calledNs_ = 0;
};

/// Compares what the process holds with what it held at first.
class Sampler {
 public:
  explicit Sampler(SoakReport& report) : report_(report) {}

  /// What the allocator merely keeps is given back first: it is as much as ever was needed at once,
  /// in as many pieces as there were threads, and says nothing of what piles up.
  void take() {
    ::malloc_trim(0);
    Holdings now;
    // The monitor closes connections of other processes in its own time.
    static_cast<void>(test::eventually(
        [&] {
          now = test::holdings();
          return rounds_ < kWarmUp || !isMore(now);
        },
        kTimeToLetGo));
    const auto bytes = static_cast<std::int64_t>(test::liveBytes());
    if (++rounds_ < kWarmUp) {
      return;
    }
    if (rounds_ == kWarmUp) {
      first_ = now;
      report_.firstKib.store(now.residentKib);
      report_.firstBytes.store(bytes);
    }
    raise(report_.moreDescriptors, now.descriptors - first_.descriptors);
    raise(report_.moreMappings, now.mappings - first_.mappings);
    raise(report_.moreThreads, now.threads - first_.threads);
    report_.lastKib.store(now.residentKib);
    report_.lastBytes.store(bytes);
    keep(static_cast<std::int32_t>(now.residentKib), static_cast<std::int32_t>(bytes));
    report_.samples.fetch_add(1);
  }

 private:
  bool isMore(const Holdings& now) const {
    return now.descriptors > first_.descriptors || now.mappings > first_.mappings ||
           now.threads > first_.threads;
  }
  static void raise(std::atomic<std::int64_t>& most, std::int64_t value) {
    most.store(std::max(most.load(), value));
  }

  void keep(std::int32_t kib, std::int32_t bytes) {
    const std::int64_t stride = std::max<std::int64_t>(report_.stride.load(), 1);
    report_.stride.store(stride);
    if (report_.samples.load() % stride != 0) {
      return;
    }
    auto kept = static_cast<std::size_t>(report_.kept.load());
    if (kept == SoakReport::kMostKept) {  // from now on half of them
      for (kept = 0; 2 * kept < SoakReport::kMostKept; ++kept) {
        report_.residentKib[kept] = report_.residentKib[2 * kept];
        report_.liveBytes[kept] = report_.liveBytes[2 * kept];
      }
      report_.stride.store(2 * stride);
    }
    report_.residentKib[kept] = kib;
    report_.liveBytes[kept] = bytes;
    report_.kept.store(static_cast<std::int64_t>(kept) + 1);
  }

  SoakReport& report_;
  Holdings first_;
  int rounds_ = 0;
};

}  // namespace

SoakPlan::SoakPlan(std::uint64_t theSeed, int round) {
  SeededRng rng(theSeed * 1'000'003 + static_cast<std::uint64_t>(round));
  seed = rng.next();
  size = 2 + static_cast<int>(rng.next() % (kMostSlots - 1));
  shift = static_cast<int>(rng.next() % static_cast<std::uint64_t>(size));
  batches = 1 + static_cast<int>(rng.next() % 12);
  const std::uint64_t fate = rng.next() % 10;
  end = fate < 2 ? End::KILLED : fate < 4 ? End::ABORTED : End::DESTROYED;
  if (end != End::DESTROYED) {
    // Slot 0 lives as long as the soak: what it holds shows what leaks.
    victim = 1 + static_cast<int>(rng.next() % static_cast<std::uint64_t>(size - 1));
    when = static_cast<int>(rng.next() % static_cast<std::uint64_t>(batches + 1));
  }
}

void live(const SoakLife& life, SoakReport& report) {
  Sampler sampler(report);
  int round = life.firstRound;
  try {
    for (; round <= life.lastRound->load(); ++round) {
      report.round.store(round);
      if (life.slot < SoakPlan(life.seed, round).size) {
        World(life, round, report).run();
        sampler.take();
      }
    }
  } catch (const std::exception& error) {
    write(report.broken, sizeof report.broken,
          str("round ", round, ", slot ", life.slot, ": ", error.what()));
  }
}

}  // namespace unisono::stress
