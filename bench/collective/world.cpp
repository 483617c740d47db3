#include "bench/collective/world.hpp"

#include <array>
#include <utility>

#include "bench/collective/peers/unisono.hpp"

namespace unisono::bench {

struct World::Parts {
  explicit Parts(Group world) : rank(std::move(world), false, true), member(rank, *board, 0) {}
  UnisonoRank rank;
  const std::unique_ptr<Board> board = std::make_unique<Board>();
  Member member;
};

World::World(Group world) : world_(std::move(world)), parts_(std::make_unique<Parts>(world_)) {}

World::~World() = default;

Field::Result World::run(std::size_t /*which*/, const Task& task) {
  Board& board = *parts_->board;
  board.wrong.store(0, std::memory_order_relaxed);
  board.lacking.store(0, std::memory_order_relaxed);
  parts_->member.perform(task);
  std::array<std::int64_t, 2> counts{
      static_cast<std::int64_t>(board.wrong.load(std::memory_order_relaxed)),
      static_cast<std::int64_t>(board.lacking.load(std::memory_order_relaxed))};
  world_.allReduce(counts);
  Result result{.microseconds = {}, .wrong = static_cast<std::uint64_t>(counts[0])};
  result.isLacking = counts[1] > 0;
  if (result.isLacking) {
    return result;
  }
  const std::uint64_t* const times = board.nanoseconds[0];
  std::vector<std::int64_t> slowest(times, times + (task.inARow ? 1 : task.count));
  world_.allReduce(slowest, {.op = ReduceOp::MAX});
  for (const std::int64_t time : slowest) {
    result.microseconds.push_back(static_cast<double>(time) / 1000);
  }
  return result;
}

}  // namespace unisono::bench
