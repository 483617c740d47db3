#include "explore/planted.hpp"

#include "explore/parts.hpp"

namespace unisono::explore {
namespace {

/// Four operations in which rank 0 gives and rank 1 takes; `give` and `take` are what is wrong.
template <typename Give, typename Take>
std::function<void(Player&)> givings(bool heardAll, Give give, Take take) {
  return [=](Player& player) {
    for (int turn = 0; turn < 4; ++turn) {
      shm::Arena& arena = player.arena;
      arena.begin(announcement());
      arena.useSlots(64, 1);
      if (player.rank == 0) {
        give(arena);
      } else {
        take(arena);
      }
      arena.end(heardAll);
    }
  };
}

void fillSlot(shm::Arena& arena) {
  fill(arena.slot(0, 0), 64, 0, arena.seq());
}
void checkSlot(shm::Arena& arena) {
  expect(arena.slot(0, 0), 64, 0, arena.seq());
}

void giveRight(shm::Arena& arena) {
  fillSlot(arena);
  arena.arrive(0);
}
void takeRight(shm::Arena& arena) {
  arena.awaitArrival(0, 0);
  checkSlot(arena);
}
void giveTooEarly(shm::Arena& arena) {
  arena.arrive(0);
  fillSlot(arena);
}

/// Says that it has read what it is about to read.
void releaseTooEarly(Player& player) {
  constexpr std::size_t kRounds = 6;
  shm::Arena& arena = player.arena;
  arena.begin(announcement());
  arena.useSlots(arena.mostChunk(), kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    if (player.rank == 0) {
      arena.awaitRoom(round);
      fill(arena.slot(0, round), 8, 0, round);
      arena.arrive(round);
    } else {
      arena.awaitArrival(0, round);
      arena.release(round);
      expect(arena.slot(0, round), 8, 0, round);
    }
    if (player.rank == 0) {
      arena.release(round);
    }
  }
  arena.end(false);
}

/// The last one says that the result is there before it is.
void resultTooEarly(Player& player) {
  for (int turn = 0; turn < 2; ++turn) {
    shm::Arena& arena = player.arena;
    arena.begin(announcement());
    if (arena.gather()) {
      arena.publishGathered();
      fill(arena.resultSlot(), 64, 0, arena.seq());
    } else {
      arena.awaitGathered();
    }
    expect(arena.resultSlot(), 64, 0, arena.seq());
    arena.end(true);
  }
}

/// Its only line is not said to be the last one, which would ring.
void lineWithoutBell(Player& player) {
  for (int turn = 0; turn < 2; ++turn) {
    player.arena.begin(announcement());
    player.arena.sendLine(0, nullptr, 0, false);
    static_cast<void>(player.arena.awaitLine(1 - player.rank, 0));
    player.arena.end(true);
  }
}

/// Waits by itself for a peer, and so does not see that it has died.
void waitWithoutLooking(Player& player) {
  shm::Arena& arena = player.arena;
  arena.begin(announcement());
  arena.useSlots(64, 1);
  arena.arrive(0);
  const auto& theirs = player.segment.block(1 - player.rank).arrival.position;
  while (!shm::reached(theirs.load(), shm::positionOf(arena.seq(), 1))) {
    futexWait(player.segment.block(player.rank).door, 1, Milliseconds(5));
  }
  arena.end(true);
}

void flats(Player& player) {
  for (int turn = 0; turn < 3; ++turn) {
    allreduce(player, allreduceFlat, 4);
  }
}

void letters(Player& player) {
  if (player.rank == 0) {
    send(player, 1, 0, 20'000);
    receive(player, 1, 1, 10);
  } else {
    receive(player, 0, 0, 20'000);
    send(player, 0, 1, 10);
  }
}

std::vector<Planted> inAlgorithms() {
  return {
      {{.name = "a flag is set before its data", .play = givings(false, giveTooEarly, takeRight)}},
      {{.name = "data is read before its flag", .play = givings(false, giveRight, checkSlot)}},
      {{.name = "a slot is filled again too early", .play = givings(true, giveRight, takeRight)}},
      {{.name = "a slot is released before it is read", .play = releaseTooEarly}},
      {{.name = "a result is told of before it is there", .cores = 1, .play = resultTooEarly}},
      {{.name = "nobody rings for a line", .play = lineWithoutBell}},
      {{.name = "a wait does not look for deaths", .play = waitWithoutLooking, .mayBeLate = true},
       Mistake::NONE,
       1},
  };
}

std::vector<Planted> inTheMachine() {
  return {
      {{.name = "wakes are lost in collectives", .play = flats}, Mistake::LOST_WAKES},
      {{.name = "wakes are lost in messages", .play = letters}, Mistake::LOST_WAKES},
      {{.name = "positions are published weakly", .play = flats}, Mistake::WEAK_PUBLICATION},
      {{.name = "messages are published weakly", .play = letters}, Mistake::WEAK_PUBLICATION},
      {{.name = "doors are marked weakly in collectives", .play = flats}, Mistake::WEAK_MARKS},
      {{.name = "doors are marked weakly in messages", .play = letters}, Mistake::WEAK_MARKS},
      {{.name = "deaths are not marked in collectives", .play = flats}, Mistake::SILENT_DEATHS, 1},
      {{.name = "deaths are not marked in messages", .play = letters}, Mistake::SILENT_DEATHS, 1},
  };
}

}  // namespace

const std::vector<Planted>& plantedMistakes() {
  static const std::vector<Planted> all = [] {
    std::vector<Planted> list = inAlgorithms();
    const std::vector<Planted> more = inTheMachine();
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

}  // namespace unisono::explore
