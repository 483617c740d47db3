// Stage: what is explored: the ranks' parts in a run, and what they promise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "explore/machine.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/mail.hpp"

namespace unisono::explore {

class Stage {
 public:
  Stage();
  virtual ~Stage() = default;
  /// Everything as at the beginning; what the ranks do.
  virtual std::vector<Machine::Body> begin() = 0;
  /// Puts away what a run has left, and says in `run.broken` which promise it broke, if any.
  virtual void end(Run& run) = 0;

  Machine& machine() noexcept { return machine_; }
  /// One run.
  Run play(Strategy& strategy);

 private:
  Machine machine_;
};

/// A rank in the middle of a run.
struct Player {
  int rank;
  int size;
  shm::Segment& segment;
  shm::Arena& arena;
  shm::Mail& mail;
};

/// What the ranks of a group that is formed do.
struct Scenario {
  std::string_view name;
  int ranks = 2;
  int cores = 0;  // 0: as many
  std::function<void(Player&)> play = nullptr;
  /// Without a kill everybody succeeds, unless this is the reason for which some fail.
  std::string_view failsWith = {};
  /// Somebody may sleep for some milliseconds longer than it had to.
  bool mayBeLate = false;
  /// Whether the kernel lets processes read each other.
  bool readsPeers = true;
};

/// A group that is formed once; its memory is as it was then at the beginning of each run.
class GroupStage final : public Stage {
 public:
  explicit GroupStage(Scenario scenario);
  ~GroupStage() override;
  std::vector<Machine::Body> begin() override;
  void end(Run& run) override;

 private:
  void form();
  void restore();
  void judge(Run& run) const;

  const Scenario scenario_;
  const std::size_t poolBefore_;
  std::vector<std::unique_ptr<shm::Segment>> segments_;
  std::vector<std::byte> snapshot_;
  std::vector<std::unique_ptr<shm::Arena>> arenas_;
  std::vector<std::unique_ptr<shm::Mail>> mails_;
};

/// The forming itself.
class FormationStage final : public Stage {
 public:
  explicit FormationStage(int ranks) : ranks_(ranks) {}
  std::vector<Machine::Body> begin() override;
  void end(Run& run) override;

 private:
  const int ranks_;
  std::size_t poolBefore_ = 0;
  std::shared_ptr<Store> store_;
  std::vector<std::unique_ptr<shm::Segment>> segments_;
};

/// What many runs came to.
struct Figures {
  std::uint64_t runs = 0;
  std::uint64_t points = 0;
  std::uint64_t kills = 0;
  std::uint64_t late = 0;
  std::uint64_t longest = 0;  // points of the longest run
  bool whole = true;          // false: stopped by `most`
  std::string broken;
  std::string schedule;  // of the run that broke it

  void add(const Run& run);
  void add(const Figures& more);
};

/// All runs within `bounds`, `most` of them at most, until one breaks a promise.
Figures exhaust(Stage& stage, Exhaustive::Bounds bounds, std::uint64_t most = ~std::uint64_t{0});
/// Runs by chance, one for each seed.
Figures gamble(Stage& stage, std::uint64_t from, std::uint64_t seeds, bool kills);

}  // namespace unisono::explore
