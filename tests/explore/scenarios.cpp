#include "explore/scenarios.hpp"

#include "explore/parts.hpp"

namespace unisono::explore {
namespace {

template <typename Part>
std::function<void(Player&)> times(int count, Part part) {
  return [=](Player& player) {
    for (int turn = 0; turn < count; ++turn) {
      part(player, turn);
    }
  };
}

std::function<void(Player&)> allreduces(int count, Algorithm algorithm, std::size_t elements) {
  return times(count, [=](Player& player, int) { allreduce(player, algorithm, elements); });
}

void pingPong(Player& player, std::size_t bytes) {
  for (int turn = 0; turn < 2; ++turn) {
    const int peer = 1 - player.rank;
    if ((player.rank + turn) % 2 == 0) {
      send(player, peer, turn, bytes);
    } else {
      receive(player, peer, turn, bytes);
    }
  }
}

void pingPongAtOnce(Player& player) {
  for (int turn = 0; turn < 3; ++turn) {
    const int peer = 1 - player.rank;
    if ((player.rank + turn) % 2 == 0) {
      sendAtOnce(player, peer, turn, 100);
    } else {
      receiveAtOnce(player, peer, turn, 100);
    }
  }
}

/// Everybody hands on what it gets, in a circle, and sends before it receives.
void circle(Player& player, std::size_t bytes) {
  for (int turn = 0; turn < 2; ++turn) {
    send(player, (player.rank + 1) % player.size, turn, bytes);
    receive(player, (player.rank + player.size - 1) % player.size, turn, bytes);
  }
}

/// Operations in which not everybody hears everybody, before and after one in which they do.
void mixture(Player& player) {
  broadcast(player, 64, 0);
  allreduce(player, allreduceLl, 4);
  broadcast(player, 64, player.size - 1);
  broadcast(player, 64, 0);
}

void leaving(Player& player) {
  allreduce(player, allreduceFlat, 4);
  broadcast(player, 64, 0);
  player.segment.leave();
}

void differing(Player& player) {
  allreduce(player, allreduceFlat, 4);
  player.arena.begin(announcement(player.rank == 0 ? 2 : 3));
  player.arena.useSlots(64, 1);
  player.arena.arrive(0);
  player.arena.awaitArrival((player.rank + 1) % player.size, 0);
  player.arena.end(false);
}

void absence(Player& player) {
  allreduce(player, allreduceLl, 4);
  if (player.rank == 0) {
    player.arena.begin(announcement(1, Milliseconds(40)));
    player.arena.sendLine(0, nullptr, 0, true);
    static_cast<void>(player.arena.awaitLine(1, 0));
    player.arena.end(true);
  }
}

// By how many runs they come to: thousands in the tests, up to millions in the proof.
constexpr Efforts kPair{.quick = {2, 1}, .thorough = {3, 2}};
constexpr Efforts kTrio{.quick = {1, 0}, .thorough = {2, 1}};
constexpr Efforts kLong{.quick = {1, 0}, .thorough = {2, 1}};
constexpr Efforts kHuge{.quick = {1, 0}, .thorough = {1, 0}};  // a run takes milliseconds

std::vector<Entry> reductions() {
  return {
      {{.name = "ll, 2 ranks", .play = allreduces(3, allreduceLl, 4)}, kPair},
      {{.name = "ll of 2 lines, 2 ranks", .play = allreduces(3, allreduceLl, 20)}, kLong},
      {{.name = "ll, 3 ranks", .ranks = 3, .play = allreduces(3, allreduceLl, 4)}, kTrio},
      {{.name = "last, 2 ranks", .cores = 1, .play = allreduces(3, allreduceLast, 4)}, kPair},
      {{.name = "last, 3 ranks", .ranks = 3, .cores = 1, .play = allreduces(3, allreduceLast, 4)},
       kTrio},
      {{.name = "flat, 2 ranks", .play = allreduces(3, allreduceFlat, 4)}, kPair},
      {{.name = "flat, 3 ranks", .ranks = 3, .play = allreduces(3, allreduceFlat, 4)}, kTrio},
      {{.name = "flat of 2 rounds, 2 ranks", .play = allreduces(2, allreduceFlat, 8000)}, kLong},
      {{.name = "flat of 6 rounds, 2 ranks", .play = allreduces(1, allreduceFlat, 180'000)}, kHuge},
      {{.name = "slices, 3 ranks", .ranks = 3, .play = allreduces(2, allreduceSlices, 48)}, kTrio},
      {{.name = "slices of 6 rounds, 3 ranks",
        .ranks = 3,
        .play = allreduces(1, allreduceSlices, 90'000)},
       kHuge},
      {{.name = "reduce by ll, 3 ranks",
        .ranks = 3,
        .play = times(3, [](Player& p, int turn) { reduce(p, allreduceLl, 4, turn % 3); })},
       kTrio},
      {{.name = "reduce by flat, 2 ranks",
        .play = times(4, [](Player& p, int turn) { reduce(p, allreduceFlat, 4, turn % 2); })},
       kLong},
  };
}

std::vector<Entry> movements() {
  return {
      {{.name = "barrier, 3 ranks",
        .ranks = 3,
        .play = times(3, [](Player& p, int) { barrier(p); })},
       kTrio},
      {{.name = "crowded barrier, 3 ranks",
        .ranks = 3,
        .cores = 1,
        .play = times(3, [](Player& p, int) { barrier(p); })},
       kTrio},
      {{.name = "broadcast, 2 ranks",
        .play = times(4, [](Player& p, int turn) { broadcast(p, 64, turn / 2); })},
       kPair},
      {{.name = "broadcast, 3 ranks",
        .ranks = 3,
        .play = times(4, [](Player& p, int turn) { broadcast(p, 64, turn % 3); })},
       kTrio},
      {{.name = "broadcast by lines, 3 ranks",
        .ranks = 3,
        .play = times(4, [](Player& p, int turn) { broadcastByLines(p, 64, turn % 3); })},
       kTrio},
      {{.name = "all_gather, 3 ranks",
        .ranks = 3,
        .play = times(3, [](Player& p, int) { allgather(p, 64); })},
       kTrio},
      {{.name = "all_to_all, 2 ranks", .play = times(3, [](Player& p, int) { alltoall(p, 64); })},
       kPair},
      {{.name = "reduce_scatter, 2 ranks",
        .play = times(3, [](Player& p, int) { reduceScatter(p, 4); })},
       kPair},
      {{.name = "all_to_all by lines, 2 ranks",
        .play = times(3, [](Player& p, int) { alltoall(p, 64, By::LINES); })},
       kPair},
      {{.name = "all_to_all by lines and by slots in turns, 2 ranks",
        .play = times(4, [](Player& p,
                            int turn) { alltoall(p, 64, turn % 2 == 0 ? By::LINES : By::SLOTS); })},
       kLong},
      {{.name = "scatter by lines, 3 ranks",
        .ranks = 3,
        .play = times(4, [](Player& p, int turn) { scatterByLines(p, 40, turn % 3); })},
       kTrio},
      {{.name = "reduce_scatter by lines, 3 ranks",
        .ranks = 3,
        .play = times(3, [](Player& p, int) { reduceScatter(p, 4, By::LINES); })},
       kTrio},
      {{.name = "mixture, 3 ranks", .ranks = 3, .play = mixture}, kTrio},
  };
}

/// Blocks that are read in the memory of who gives them; or that should be, and cannot.
std::vector<Entry> pulls() {
  const auto broadcasts =
      times(3, [](Player& p, int turn) { broadcast(p, 64, turn % p.size, By::PULL); });
  const auto gathers = times(2, [](Player& p, int) { allgather(p, 64, By::PULL); });
  const auto exchanges = times(2, [](Player& p, int) { alltoall(p, 64, By::PULL); });
  return {
      {{.name = "broadcast by pull, 2 ranks", .play = broadcasts}, kLong},
      {{.name = "broadcast by pull, 3 ranks", .ranks = 3, .play = broadcasts}, kTrio},
      {{.name = "broadcast by pull that is denied, 3 ranks",
        .ranks = 3,
        .play = broadcasts,
        .readsPeers = false},
       kTrio},
      {{.name = "all_gather by pull, 2 ranks", .play = gathers}, kLong},
      {{.name = "all_gather by pull that is denied, 2 ranks", .play = gathers, .readsPeers = false},
       kLong},
      {{.name = "all_gather by pull that is denied, 3 ranks",
        .ranks = 3,
        .play = gathers,
        .readsPeers = false},
       kTrio},
      {{.name = "all_to_all by pull, 2 ranks", .play = exchanges}, kLong},
      {{.name = "all_to_all by pull that is denied, 2 ranks",
        .play = exchanges,
        .readsPeers = false},
       kLong},
  };
}

std::vector<Entry> others() {
  return {
      {{.name = "short messages, 2 ranks", .play = [](Player& p) { pingPong(p, 100); }}, kPair},
      {{.name = "messages at once, 2 ranks", .play = pingPongAtOnce}, kPair},
      {{.name = "long messages, 2 ranks", .play = [](Player& p) { pingPong(p, 20'000); }}, kLong},
      {{.name = "messages longer than the pipe, by the pipe, 2 ranks",
        .play = [](Player& p) { pingPong(p, 100'000); },
        .readsPeers = false},
       kHuge},
      {{.name = "messages in a circle, 3 ranks",
        .ranks = 3,
        .play = [](Player& p) { circle(p, 100); }},
       kTrio},
      {{.name = "leaving, 2 ranks", .play = leaving}, kPair},
      {{.name = "differing calls, 3 ranks", .ranks = 3, .play = differing, .failsWith = "MISMATCH"},
       kTrio},
      {{.name = "a rank that does not come, 2 ranks",
        .play = absence,
        .failsWith = "TIMEOUT",
        .mayBeLate = true},
       kLong},
  };
}

}  // namespace

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list = reductions();
    for (const auto& more : {movements(), pulls(), others()}) {
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }();
  return all;
}

Figures examine(Stage& stage, Effort effort, std::uint64_t most) {
  Figures calm = exhaust(stage, {effort.calm, 0}, most);
  if (calm.broken.empty()) {
    calm.add(exhaust(stage, {effort.beside, 1}, most));
  }
  return calm;
}

}  // namespace unisono::explore
