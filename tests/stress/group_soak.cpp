// group_soak: processes that make worlds and parts of them, for a long time.
//
// In every round some of the processes form a world, run random operations with known results in it
// and in parts of it, and destroy it; now and then one of them is killed or aborts instead, and
// the next world is formed with another process in its place. No result may be wrong, nobody may
// hang, everybody blames the right one, and nothing may pile up.
//
//   group_soak [--minutes N | --seconds N] [--seed S] [--round R] [--json]
//
// With --round, that round only. Ends with 1, and a line that names the seed and the round, when a
// promise was broken.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <vector>

#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "fault/row.hpp"
#include "stress/growth.hpp"
#include "stress/soak_rank.hpp"
#include "support/server_process.hpp"
#include "support/support.hpp"

namespace unisono::stress {
namespace {

constexpr Milliseconds kHang = std::chrono::seconds(90);  // more than any call may last
constexpr std::int64_t kNoEnd = INT64_MAX - 1;
constexpr std::int64_t kMoreRounds = 8;  // until all have heard that it ends
// What a process may grow by, beyond doubt, in the second half: a MiB an hour.
constexpr double kMostKibPerHour = 1024;
// Fewer worlds say nothing: not all that is made once has been made in the first half of them.
constexpr std::int64_t kFewWorlds = 1000;

struct Settings {
  double seconds = 60;
  std::uint64_t seed = randomSeed();
  std::optional<int> round;
  bool json = false;
};

struct Shared {
  std::atomic<std::int64_t> lastRound;
  SoakReport reports[kMostSlots];
};

class Soak {
 public:
  explicit Soak(const Settings& settings) : settings_(settings) {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    shared_ = static_cast<Shared*>(memory);
    shared_->lastRound.store(settings.round ? *settings.round : kNoEnd);
  }
  ~Soak() {
    processes_.clear();
    ::munmap(shared_, sizeof(Shared));
  }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;

  /// What was broken; empty for nothing.
  std::string run() {
    fault::watchWhatIsLeft();
    const auto begun = std::chrono::steady_clock::now();
    processes_.resize(kMostSlots);
    for (int slot = 0; slot < kMostSlots; ++slot) {
      start(slot, settings_.round.value_or(0));
    }
    const Deadline end = Deadline::after(Milliseconds(static_cast<int>(settings_.seconds * 1000)));
    std::string broken;
    TimerWaitable timer{Milliseconds(2)};
    static_cast<void>(waitUntil(
        [&] {
          if (end.expired() && shared_->lastRound.load() == kNoEnd) {
            shared_->lastRound.store(latestRound() + kMoreRounds);
          }
          broken = lookAfterAll();
          return !broken.empty() || isOver();
        },
        {.deadline = Deadline::never(), .subject = {}}, timer));
    using Hours = std::chrono::duration<double, std::ratio<3600>>;
    hours_ = Hours(std::chrono::steady_clock::now() - begun).count();
    return broken.empty() ? whatPiledUp() : broken;
  }

  std::int64_t sum(std::atomic<std::int64_t> SoakReport::*field) const {
    std::int64_t all = 0;
    for (const SoakReport& report : shared_->reports) {
      all += (report.*field).load();
    }
    return all;
  }
  std::int64_t most(std::atomic<std::int64_t> SoakReport::*field) const {
    std::int64_t most = 0;
    for (const SoakReport& report : shared_->reports) {
      most = std::max(most, (report.*field).load());
    }
    return most;
  }
  std::int64_t kills() const { return kills_; }
  std::int64_t latestRound() const { return most(&SoakReport::round); }
  /// Of the process that lives all the time: how many KiB more are resident, and allocated, after
  /// an hour.
  Growth resident() const { return perHour(first().residentKib, 1); }
  Growth allocated() const { return perHour(first().liveBytes, 1024); }
  const SoakReport& first() const { return shared_->reports[0]; }

 private:
  void start(int slot, int round) {
    const SoakLife life{.slot = slot,
                        .seed = settings_.seed,
                        .firstRound = round,
                        .folder = folder_.path(),
                        .lastRound = &shared_->lastRound};
    SoakReport& report = shared_->reports[slot];
    report.round.store(round);
    processes_[static_cast<std::size_t>(slot)] = std::make_unique<test::Process>([life, &report] {
      live(life, report);
      return report.broken[0] == '\0' ? 0 : 1;
    });
  }

  bool isOver() const {
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process == nullptr; });
  }

  /// Those who were killed are replaced; who ends otherwise must have come to the end.
  std::string lookAfterAll() {
    for (int slot = 0; slot < kMostSlots; ++slot) {
      std::unique_ptr<test::Process>& process = processes_[static_cast<std::size_t>(slot)];
      SoakReport& report = shared_->reports[slot];
      if (!process || !process->ended()) {
        continue;
      }
      const int status = process->join();
      process.reset();
      const auto round = static_cast<int>(report.round.load());
      const SoakPlan plan(settings_.seed, round);
      const bool doomed = plan.end == SoakPlan::End::KILLED && plan.victim == slot;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && doomed) {
        ++kills_;
        if (round < shared_->lastRound.load()) {
          start(slot, round + 1);
        }
      } else if (status != 0) {
        return str("round ", round, ", slot ", slot, " ended with status ", status, " in ",
                   report.doing, whatAllSay());
      }
    }
    return hasMoved() ? "" : describeHang();
  }

  /// One that breaks a promise ends, and others are told that it has left: the cause is among them.
  std::string whatAllSay() {
    std::string text;
    static_cast<void>(test::eventually([] { return false; }, Milliseconds(500)));
    for (const SoakReport& report : shared_->reports) {
      text += report.broken[0] == '\0' ? "" : str("\n  ", report.broken);
    }
    return text;
  }

  bool hasMoved() {
    const std::int64_t now = sum(&SoakReport::operations) + sum(&SoakReport::round);
    if (now != moved_) {
      moved_ = now;
      patience_ = Deadline::after(kHang);
    }
    return !patience_.expired();
  }

  std::string describeHang() const {
    std::string text = "nothing moves:";
    for (int slot = 0; slot < kMostSlots; ++slot) {
      const SoakReport& report = shared_->reports[slot];
      text += str(" slot ", slot, " is in round ", report.round.load(), ", ", report.doing, ";");
    }
    return text;
  }

  std::string whatPiledUp() const {
    for (const auto& [field, what] :
         {std::pair(&SoakReport::moreDescriptors, "descriptors"),
          std::pair(&SoakReport::moreMappings, "mappings of shared memory"),
          std::pair(&SoakReport::moreThreads, "threads")}) {
      if (most(field) > 0) {
        return str("a process has ", most(field), " ", what, " more than at first");
      }
    }
    const bool settled = first().samples.load() >= kFewWorlds;
    for (const auto& [growth, what] :
         {std::pair(resident(), "resident"), std::pair(allocated(), "allocated")}) {
      if (settled && growth.exceeds(kMostKibPerHour)) {
        return str("a process has ", growth.perSample, " KiB more ", what,
                   " after an hour, give or take ", growth.error);
      }
    }
    try {
      fault::checkNothingLeft();
    } catch (const fault::Broken& broken) {
      return broken.what();
    }
    return "";
  }

  Growth perHour(const std::int32_t* kept, double unitsPerKib) const {
    const auto count = static_cast<std::size_t>(first().kept.load());
    const double keptPerHour = static_cast<double>(count) / hours_;
    const Growth each = growthOf({kept, count});
    return {.perSample = each.perSample * keptPerHour / unitsPerKib,
            .error = each.error * keptPerHour / unitsPerKib};
  }

  const Settings& settings_;
  const test::TempDir folder_;
  Shared* shared_ = nullptr;
  std::vector<std::unique_ptr<test::Process>> processes_;
  std::int64_t kills_ = 0;
  double hours_ = 1;
  std::int64_t moved_ = -1;
  Deadline patience_ = Deadline::after(kHang);
};

std::optional<Settings> parse(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--json") {
      settings.json = true;
    } else if (i + 1 == count) {
      return std::nullopt;
    } else if (name == "--minutes") {
      settings.seconds = std::atof(arguments[++i]) * 60;
    } else if (name == "--seconds") {
      settings.seconds = std::atof(arguments[++i]);
    } else if (name == "--seed") {
      settings.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--round") {
      settings.round = std::atoi(arguments[++i]);
    } else {
      return std::nullopt;
    }
  }
  return settings;
}

void print(const Soak& soak, const Settings& settings) {
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  std::printf(
      settings.json
          ? "{\"seed\":%llu,\"worlds\":%lld,\"groups\":%lld,\"operations\":%lld,\"killed "
            "ranks\":%lld,\"times a rank was told whom it lost\":%lld,\"told after worst ms\":%.1f,"
            "\"wrong results\":0,\"hangs\":0,\"wrong culprits\":0,\"resident kib at "
            "first\":%lld,\"resident kib at last\":%lld,\"resident kib per hour\":%.0f,"
            "\"give or take\":%.0f,\"bytes allocated at first\":%lld,\"bytes allocated at "
            "last\":%lld,\"allocated kib per hour\":%.1f,"
            "\"descriptors more\":%lld,\"mappings more\":%lld,\"threads more\":%lld,\"left "
            "behind\":0}\n"
          : "seed %llu: %lld worlds, %lld groups of ranks, %lld operations; %lld ranks killed, "
            "%lld times a rank was told whom it lost, after %.1f ms at worst; resident KiB %lld "
            "at first, %lld at last, in the second half %.0f (give or take %.0f) more an hour; "
            "allocated bytes %lld at first, %lld at last, %.1f KiB more an hour; more than at "
            "first: "
            "%lld descriptors, %lld mappings, %lld threads\n",
      static_cast<unsigned long long>(settings.seed), number(soak.latestRound() + 1),
      number(soak.sum(&SoakReport::groups)), number(soak.sum(&SoakReport::operations)),
      number(soak.kills()), number(soak.sum(&SoakReport::faults)),
      static_cast<double>(soak.most(&SoakReport::lateUs)) / 1000,
      number(soak.first().firstKib.load()), number(soak.first().lastKib.load()),
      soak.resident().perSample, soak.resident().error, number(soak.first().firstBytes.load()),
      number(soak.first().lastBytes.load()), soak.allocated().perSample,
      number(soak.most(&SoakReport::moreDescriptors)), number(soak.most(&SoakReport::moreMappings)),
      number(soak.most(&SoakReport::moreThreads)));
}

int main(int count, char** arguments) {
  const auto settings = parse(count, arguments);
  if (!settings) {
    std::fputs("usage: group_soak [--minutes N | --seconds N] [--seed S] [--round R] [--json]\n",
               stderr);
    return 2;
  }
  Soak soak(*settings);
  const std::string broken = soak.run();
  if (!broken.empty()) {
    std::fprintf(stderr, "group_soak: seed %llu: %s\n",
                 static_cast<unsigned long long>(settings->seed), broken.c_str());
    return 1;
  }
  print(soak, *settings);
  return 0;
}

}  // namespace
}  // namespace unisono::stress

int main(int count, char** arguments) {
  return unisono::stress::main(count, arguments);
}
