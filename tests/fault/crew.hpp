// Crew: the ranks of one round, each a process of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/group/group.hpp"

#include "base/clock.hpp"
#include "fault/report.hpp"
#include "support/server_process.hpp"
#include "support/support.hpp"

namespace unisono::fault {

class Round;
enum class Way : std::uint8_t;

/// A rank, in its own process.
class Member {
 public:
  Member(int rank, int size, std::string storePath, std::uint64_t seed, Report& report)
      : rank_(rank), size_(size), storePath_(std::move(storePath)), seed_(seed), report_(report) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  Report& report() { return report_; }

  /// Meets the others, through `store` or else a file.
  Group join(Milliseconds timeout = std::chrono::seconds(20), StorePtr store = nullptr);

  /// Runs operations, the same as all other ranks, until one throws or `enough` of them are done.
  /// An error is noted, and how the next call of the group ends.
  void work(Group& group, bool large, std::int64_t enough = INT64_MAX);
  /// One call, whose error is noted likewise.
  void call(Group& group, const std::function<void()>& operation);
  /// Calls the group that has failed a few times more, and notes how that ends, and how soon.
  void callAgain(Group& group);
  /// Returns when the row has set the rank's phase to `phase`.
  void awaitPhase(std::int64_t phase);

 private:
  const int rank_;
  const int size_;
  const std::string storePath_;
  const std::uint64_t seed_;
  Report& report_;
};

/// What a rank does from its birth to its end.
using Life = std::function<void(Member&)>;

class Crew {
 public:
  /// The processes are started by start(): before that the row may prepare.
  Crew(int size, Round& round);
  ~Crew();

  /// Runs in every process before it has threads, and before `life`.
  void setPreparation(std::function<void(int rank)> prepare) { prepare_ = std::move(prepare); }
  /// Starts all ranks. What `life` throws is noted in the rank's report.
  void start(const Life& life);
  /// Starts one more process; it may claim a rank that there is already, and has a report of its
  /// own.
  void startOne(int slot, int rank, const Life& life);

  int size() const { return size_; }
  /// See Round.
  bool isThorough() const { return thorough_; }
  Report& report(int rank) { return board_[rank]; }
  test::Process& process(int slot) { return *processes_[static_cast<std::size_t>(slot)]; }
  const std::string& storePath() const { return storePath_; }

  /// Lets all ranks go on that wait for `phase`.
  void setPhase(std::int64_t phase);
  /// Returns when the rank has called something and its thread sleeps there.
  void awaitAsleep(int rank);
  /// Returns when every rank has done `count` operations. Throws Broken when that takes too long.
  void awaitOperations(std::int64_t count);
  /// Returns when `rank` has thrown. Throws Broken when it does not, or got a wrong result.
  void awaitError(int rank);
  /// Returns when its process has ended; throws Broken unless with 0 and with nothing left behind.
  void awaitEnd(int slot);

 private:
  const int size_;
  const std::uint64_t seed_;
  const Way way_;
  const bool thorough_;
  std::function<void(int)> prepare_ = [](int) {};
  const test::TempDir folder_;
  const std::string storePath_;
  Board board_;
  std::vector<std::unique_ptr<test::Process>> processes_;
};

/// Waits until `ready`; false when that takes longer than `patience`.
bool eventually(const std::function<bool()>& ready,
                Milliseconds patience = std::chrono::seconds(30));

/// For a process to become many gigabytes large, on a host that has other things to do.
constexpr Milliseconds kTimeToGrow = std::chrono::seconds(110);

/// How many descriptors this process has open, and mappings of unisono's memory.
std::int64_t holdings();

}  // namespace unisono::fault
