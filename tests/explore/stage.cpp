#include "explore/stage.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/str.hpp"
#include "explore/pool.hpp"
#include "explore/stand_ins.hpp"
#include "life/life_word.hpp"

namespace unisono::explore {
namespace {

// Every sleep looks at all ranks within five slices of 5 ms, and whoever learns of a death tells.
constexpr Milliseconds kNoticed(100);

std::vector<int> ranksUpTo(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string describePost(const shm::Post& post) {
  return str("test ", post.call);
}

std::uint32_t& lifeOf(shm::Segment& segment) {
  return *reinterpret_cast<std::uint32_t*>(&segment.block(segment.rank()).life.mutex);
}

bool blamesVictim(const Run& run, const End& end) {
  // ABORTED: it died while it was reporting a failure of another kind.
  return (end.reason == "PEER_DEAD" || end.reason == "ABORTED") &&
         end.culprits == std::vector<int>{run.victim};
}

}  // namespace

Stage::Stage() {
  static_cast<void>(lifeWordsWork());  // tried once per process, by a thread
}

Run Stage::play(Strategy& strategy) {
  Run run = machine_.run(begin(), strategy);
  end(run);
  return run;
}

// --- a group ---

GroupStage::GroupStage(Scenario scenario)
    : scenario_(std::move(scenario)),
      poolBefore_(Pool::taken()),
      segments_(static_cast<std::size_t>(scenario_.ranks)) {
  form();
}

GroupStage::~GroupStage() {
  segments_.clear();
  closeLeftovers();
  Pool::giveBack(poolBefore_);
}

void GroupStage::form() {
  const auto store = std::make_shared<FiberStore>();
  std::vector<Machine::Body> bodies;
  for (int rank = 0; rank < scenario_.ranks; ++rank) {
    bodies.emplace_back([this, rank, store] {
      auto& mine = segments_[static_cast<std::size_t>(rank)];
      mine = shm::Segment::form({.store = store,
                                 .rank = rank,
                                 .size = scenario_.ranks,
                                 .group = "test",
                                 .settings = "",
                                 .timeout = std::chrono::seconds(5)});
      // The memory for long operations and messages is there, too: asking for it is no protocol
      // in shared memory.
      mine->extend(shm::kRingExtension, Deadline::never());
      for (int to = 0; to < scenario_.ranks; ++to) {
        static_cast<void>(mine->pipe(rank, to, Deadline::never()));
      }
    });
  }
  Usual usual;
  const Run run = machine().run(bodies, usual);
  if (!run.broken.empty() || !segments_.back()) {
    throw std::runtime_error(str("the group was not formed: ", run.broken, run.ends[0].text));
  }
  const shm::Layout layout{static_cast<std::size_t>(scenario_.ranks)};
  const auto* bytes = reinterpret_cast<const std::byte*>(&segments_[0]->header());
  snapshot_.assign(bytes, bytes + layout.bytes());
  std::vector<const void*> doors;
  for (int rank = 0; rank < scenario_.ranks; ++rank) {
    doors.push_back(&segments_[0]->block(rank).door);
    doors.push_back(&segments_[0]->block(rank).mailDoor);
  }
  machine().setDoors(std::move(doors));
}

void GroupStage::restore() {
  std::memcpy(reinterpret_cast<std::byte*>(&segments_[0]->header()), snapshot_.data(),
              snapshot_.size());
  const auto ranks = static_cast<std::size_t>(scenario_.ranks);
  for (std::uint32_t to = 0; to < ranks; ++to) {
    const auto inbox = segments_[0]->extend(shm::kFirstInbox + to, Deadline::never());
    for (std::size_t from = 0; from < ranks; ++from) {
      // Nobody looks at a head behind the first before its writer has cleared it.
      std::memset(inbox.data() + from * shm::pipeBytes(ranks), 0,
                  sizeof(shm::PipeCounter) + sizeof(shm::PipeHead));
    }
  }
}

std::vector<Machine::Body> GroupStage::begin() {
  restore();
  allowReadingPeers(scenario_.readsPeers);
  std::vector<Machine::Body> bodies;
  for (const auto& segment : segments_) {
    const int cores = scenario_.cores > 0 ? scenario_.cores : scenario_.ranks;
    const std::vector<int> ranks = ranksUpTo(scenario_.ranks);
    arenas_.push_back(std::make_unique<shm::Arena>(
        *segment,
        shm::ArenaOptions{.cores = cores, .globalRanks = ranks, .describe = describePost}));
    mails_.push_back(std::make_unique<shm::Mail>(*segment, cores, ranks));
    bodies.emplace_back(
        [this, &segment = *segment, &arena = *arenas_.back(), &mail = *mails_.back()] {
          machine().holdLife(lifeOf(segment));
          Player player{segment.rank(), segment.size(), segment, arena, mail};
          scenario_.play(player);
        });
  }
  return bodies;
}

void GroupStage::end(Run& run) {
  for (std::size_t rank = 0; rank < mails_.size(); ++rank) {
    if (run.ends[rank].how == End::KILLED || run.ends[rank].how == End::RUNNING) {
      static_cast<void>(mails_[rank].release());  // whoever was in it may hold its lock
    }
  }
  mails_.clear();
  arenas_.clear();
  if (run.broken.empty()) {
    judge(run);
  }
}

void GroupStage::judge(Run& run) const {
  bool failed = false;
  for (std::size_t rank = 0; rank < run.ends.size(); ++rank) {
    const End& end = run.ends[rank];
    const bool inTime = run.victim < 0 || end.when < run.killedAt + kNoticed;
    const bool expected = !scenario_.failsWith.empty() && end.reason == scenario_.failsWith;
    const bool good = end.how != End::FAILED || expected || blamesVictim(run, end);
    failed = failed || end.how == End::FAILED;
    if (!good || !inTime) {
      run.broken = str("rank ", rank, good ? " was late: " : ": ", end.text);
      return;
    }
  }
  if (run.late > 0 && !scenario_.mayBeLate) {
    run.broken = "a rank slept on although what it waited for was there";
  } else if (!failed && run.victim < 0 && !scenario_.failsWith.empty()) {
    run.broken = str("nobody failed with ", scenario_.failsWith);
  }
}

// --- a formation ---

std::vector<Machine::Body> FormationStage::begin() {
  poolBefore_ = Pool::taken();
  store_ = std::make_shared<FiberStore>();
  segments_ = std::vector<std::unique_ptr<shm::Segment>>(static_cast<std::size_t>(ranks_));
  std::vector<Machine::Body> bodies;
  for (int rank = 0; rank < ranks_; ++rank) {
    bodies.emplace_back([this, rank] {
      segments_[static_cast<std::size_t>(rank)] =
          shm::Segment::form({.store = store_,
                              .rank = rank,
                              .size = ranks_,
                              .group = "test",
                              .settings = "",
                              .timeout = Milliseconds(100)});
    });
  }
  return bodies;
}

void FormationStage::end(Run& run) {
  segments_.clear();
  store_.reset();
  closeLeftovers();
  Pool::giveBack(poolBefore_);
  for (std::size_t rank = 0; rank < run.ends.size() && run.broken.empty(); ++rank) {
    const End& end = run.ends[rank];
    // Who was killed before anybody knew of it has not come.
    const bool missed = end.reason == "TIMEOUT" &&
                        (end.culprits == std::vector<int>{run.victim} ||
                         end.text.find(str("ranks ", run.victim, " of")) != std::string::npos);
    // Who comes when rank 0 has failed already, because of the victim, learns only that.
    const bool tooLate =
        end.reason == "PEER_LEFT" && run.victim > 0 && run.ends[0].how == End::FAILED;
    const bool good = run.victim >= 0 && (missed || tooLate || blamesVictim(run, end));
    if (end.how == End::FAILED && !good) {
      run.broken = str("rank ", rank, ": ", end.text);
    }
  }
}

// --- many runs ---

void Figures::add(const Run& run) {
  runs += 1;
  points += run.points;
  kills += run.victim >= 0 ? 1 : 0;
  late += run.late;
  longest = std::max(longest, run.points);
  broken = run.broken;
  schedule = run.broken.empty() ? "" : run.schedule;
}

void Figures::add(const Figures& more) {
  runs += more.runs;
  points += more.points;
  kills += more.kills;
  late += more.late;
  longest = std::max(longest, more.longest);
  whole = whole && more.whole;
  broken = more.broken;
  schedule = more.schedule;
}

Figures exhaust(Stage& stage, Exhaustive::Bounds bounds, std::uint64_t most) {
  Figures figures;
  Exhaustive all(bounds);
  for (bool more = true; more && figures.broken.empty(); more = all.next()) {
    if (figures.runs == most) {
      figures.whole = false;
      break;
    }
    figures.add(stage.play(all));
  }
  return figures;
}

Figures gamble(Stage& stage, std::uint64_t from, std::uint64_t seeds, bool kills) {
  Usual usual;
  Figures figures;
  figures.add(stage.play(usual));
  const std::uint64_t length = figures.points;
  for (std::uint64_t seed = from; seed < from + seeds && figures.broken.empty(); ++seed) {
    Chance chance(seed, length, kills);
    figures.add(stage.play(chance));
  }
  return figures;
}

}  // namespace unisono::explore
