#include "fault/chores.hpp"

#include <algorithm>
#include <vector>

namespace unisono::fault {
namespace {

constexpr std::size_t kFence = 32;  // elements before and after a tensor that nobody may touch
constexpr std::int32_t kFenceValue = 0x5EED;

/// Memory for tensors, with a fence around it. Of the group, where one is given.
class Field {
 public:
  Field(Group* group, std::size_t count, std::int32_t value) : count_(count) {
    const std::size_t all = count + 2 * kFence;
    if (group != nullptr) {
      registered_ = group->allocate(static_cast<std::int64_t>(all), DType::INT32);
      memory_ = {registered_.dataAs<std::int32_t>(), all};
    } else {
      ordinary_.resize(all);
      memory_ = ordinary_;
    }
    std::fill(memory_.begin(), memory_.end(), kFenceValue);
    std::fill_n(memory_.begin() + kFence, count, value);
  }
  std::span<std::int32_t> values() { return memory_.subspan(kFence, count_); }
  Tensor tensor() { return Tensor(values()); }
  Tensor part(std::size_t index, std::size_t size) {
    return Tensor(values().subspan(index * size, size));
  }
  bool isFenced() const {
    const auto end = memory_.begin() + static_cast<std::ptrdiff_t>(kFence + count_);
    const auto same = [](std::int32_t value) { return value == kFenceValue; };
    return std::all_of(memory_.begin(), memory_.begin() + kFence, same) &&
           std::all_of(end, memory_.end(), same);
  }
  /// Whether part r of `parts` equal ones is `right(r)` everywhere.
  template <typename Right>
  bool is(std::size_t parts, Right right) {
    const std::size_t size = count_ / parts;
    for (std::size_t i = 0; i < parts; ++i) {
      const auto part = values().subspan(i * size, size);
      const auto wanted = static_cast<std::int32_t>(right(i));
      if (!std::all_of(part.begin(), part.end(), [&](auto value) { return value == wanted; })) {
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::int32_t> ordinary_;
  Tensor registered_;
  std::span<std::int32_t> memory_;
  const std::size_t count_;
};

/// The fields of one rank, what it does with them, and what it must have then.
class Task {
 public:
  Task(Group& group, const Chore& chore)
      : group_(group),
        chore_(chore),
        ranks_(static_cast<std::size_t>(group.size())),
        mine_(chore.registered ? &group : nullptr,
              chore.count * (givesMany(chore.kind) ? ranks_ : 1), group.rank() + 1),
        got_(chore.registered ? &group : nullptr,
             chore.count * (takesMany(chore.kind) ? ranks_ : 1), -1) {}

  void run() {
    const CallOptions options{.root = chore_.root, .async = chore_.async};
    switch (chore_.kind) {
      case Chore::Kind::ALL_REDUCE:
        return finish(group_.allReduce(mine_.tensor(), options));
      case Chore::Kind::BROADCAST:
        return finish(group_.broadcast(mine_.tensor(), options));
      case Chore::Kind::ALL_GATHER:
        return finish(group_.allGather(mine_.tensor(), got_.tensor(), options));
      case Chore::Kind::REDUCE_SCATTER:
        return finish(group_.reduceScatter(mine_.tensor(), got_.tensor(), options));
      case Chore::Kind::ALL_TO_ALL:
        return finish(group_.allToAll(mine_.tensor(), got_.tensor(), options));
      case Chore::Kind::REDUCE:
        return finish(group_.reduce(mine_.tensor(), options));
      case Chore::Kind::GATHER:
      case Chore::Kind::SCATTER:
        return gatherOrScatter();
      case Chore::Kind::EXCHANGE:
        return exchange();
      case Chore::Kind::BARRIER:
        return finish(group_.barrier(options));
    }
  }

  bool isFenced() const { return mine_.isFenced() && got_.isFenced(); }

  bool isRight() {
    const std::size_t sum = ranks_ * (ranks_ + 1) / 2;
    const auto me = static_cast<std::size_t>(group_.rank());
    const auto root = static_cast<std::size_t>(chore_.root);
    const auto always = [](std::size_t value) { return [value](std::size_t) { return value; }; };
    const auto byRank = [](std::size_t rank) { return rank + 1; };
    switch (chore_.kind) {
      case Chore::Kind::ALL_REDUCE:
        return mine_.is(1, always(sum));
      case Chore::Kind::BROADCAST:
        return mine_.is(1, always(root + 1));
      case Chore::Kind::REDUCE:
        return mine_.is(1, always(me == root ? sum : me + 1));
      case Chore::Kind::REDUCE_SCATTER:
        return got_.is(1, always(sum));
      case Chore::Kind::ALL_GATHER:
      case Chore::Kind::ALL_TO_ALL:
        return got_.is(ranks_, byRank);
      case Chore::Kind::GATHER:
        return me != root || got_.is(ranks_, byRank);
      case Chore::Kind::SCATTER:
        return got_.is(1, always(root + 1));
      case Chore::Kind::EXCHANGE:
        return got_.is(1, always((me + ranks_ - 1) % ranks_ + 1));
      case Chore::Kind::BARRIER:
        return true;
    }
    return false;
  }

 private:
  static bool givesMany(Chore::Kind kind) {
    return kind == Chore::Kind::REDUCE_SCATTER || kind == Chore::Kind::ALL_TO_ALL ||
           kind == Chore::Kind::SCATTER;
  }
  static bool takesMany(Chore::Kind kind) {
    return kind == Chore::Kind::ALL_GATHER || kind == Chore::Kind::ALL_TO_ALL ||
           kind == Chore::Kind::GATHER;
  }
  static void finish(const WorkPtr& work) { work->wait(); }

  void gatherOrScatter() {
    std::vector<Tensor> parts;
    const bool gathers = chore_.kind == Chore::Kind::GATHER;
    for (std::size_t i = 0; i < ranks_; ++i) {
      parts.push_back((gathers ? got_ : mine_).part(i, chore_.count));
    }
    TensorLists lists;
    if (group_.rank() == chore_.root) {
      lists.emplace_back(parts);
    }
    ProcessGroup& all = group_.processGroup();
    finish(gathers ? all.gather(lists, mine_.tensor(),
                                {.rootRank = chore_.root, .asyncOp = chore_.async})
                   : all.scatter(got_.tensor(), lists,
                                 {.rootRank = chore_.root, .asyncOp = chore_.async}));
  }

  void exchange() {
    const int ranks = group_.size();
    const WorkPtr sent = group_.send(mine_.tensor(), (group_.rank() + 1) % ranks, {.async = true});
    const WorkPtr got =
        group_.recv(got_.tensor(), (group_.rank() + ranks - 1) % ranks, {.async = true});
    got->wait();
    sent->wait();
  }

  Group& group_;
  const Chore chore_;
  const std::size_t ranks_;
  Field mine_;
  Field got_;
};

}  // namespace

Chore Chore::any(std::uint64_t choice, int ranks, bool large) {
  static constexpr std::size_t kCounts[] = {1, 16 << 10, 4 << 20};
  return {.kind = static_cast<Kind>(choice % kKinds),
          .count = kCounts[choice / 16 % (large ? 3 : 2)],
          .async = choice / 64 % 2 == 1,
          .root = static_cast<int>(choice / 256 % static_cast<std::uint64_t>(ranks))};
}

bool carryOut(Group& group, const Chore& chore, const std::function<void()>& calling,
              const std::function<void()>& wrong) {
  calling();  // of memory, too
  Task task(group, chore);
  calling();
  try {
    task.run();
  } catch (...) {
    if (!task.isFenced()) {
      wrong();
    }
    throw;
  }
  return task.isFenced() && task.isRight();
}

}  // namespace unisono::fault
