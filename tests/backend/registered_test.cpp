// Operations on registered memory: the same results, whoever has it.
#include <gmock/gmock.h>
#include <numeric>

#include "backend/native_world.hpp"
#include "base/str.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::textOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// Which ranks have their tensors in registered memory.
enum class Kind { NONE, ALL, ODD, FIRST };

struct Case {
  int ranks;
  Kind kind;
  std::size_t count;
  bool pulls = false;  // what is not registered is read in the memory of who gives it
};

bool isRegistered(Kind kind, int rank) {
  return kind == Kind::ALL || (kind == Kind::ODD && rank % 2 == 1) ||
         (kind == Kind::FIRST && rank == 0);
}

/// A vector that is registered or not.
class Values {
 public:
  Values(NativeBackend& rank, Kind kind, std::size_t count)
      : tensor_(isRegistered(kind, rank.rank())
                    ? rank.allocateTensor(static_cast<std::int64_t>(count), DType::INT64)
                    : Tensor()),
        plain_(count) {
    if (!tensor_.defined()) {
      tensor_ = Tensor(plain_);
    }
  }
  const Tensor& tensor() const { return tensor_; }
  std::span<std::int64_t> span() const {
    return {tensor_.dataAs<std::int64_t>(), static_cast<std::size_t>(tensor_.numel())};
  }
  /// first, first + 1, …
  void fill(std::int64_t first) { std::iota(span().begin(), span().end(), first); }

 private:
  Tensor tensor_;
  std::vector<std::int64_t> plain_;
};

std::int64_t first(int rank) {
  return (rank + 1) * 1'000'000;
}

class RegisteredTest : public ::testing::TestWithParam<Case> {
 protected:
  const int n = GetParam().ranks;
  const std::size_t count = GetParam().count;
  std::size_t ranks() const { return static_cast<std::size_t>(n); }
  Values values(NativeBackend& rank, std::size_t elements) const {
    return {rank, GetParam().kind, elements};
  }
  const test::ScopedEnv way{"UNISONO_ALGO", GetParam().pulls ? "blocks=pull" : "blocks=slots"};
  NativeWorld world{n};
};

TEST_P(RegisteredTest, AllReduceGivesEverybodyTheSum) {
  world.run([&](NativeBackend& rank) {
    Values mine = values(rank, count);
    for (int turn = 0; turn < 5; ++turn) {
      mine.fill(first(rank.rank()) + turn);
      rank.allreduce({mine.tensor()}, {.asyncOp = false})->wait();
      std::int64_t sum = 0;
      for (int peer = 0; peer < n; ++peer) {
        sum += first(peer) + turn;
      }
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(mine.span()[i], sum + n * static_cast<std::int64_t>(i)) << i;
      }
    }
  });
}

TEST_P(RegisteredTest, BroadcastGivesEverybodyTheRoots) {
  world.run([&](NativeBackend& rank) {
    Values mine = values(rank, count);
    for (int turn = 0; turn < 3 * n; ++turn) {
      const int root = turn % n;
      mine.fill(first(rank.rank()) + turn);
      rank.broadcast({mine.tensor()}, {.rootRank = root, .asyncOp = false})->wait();
      ASSERT_EQ(mine.span().front(), first(root) + turn);
      ASSERT_EQ(mine.span().back(), first(root) + turn + static_cast<std::int64_t>(count) - 1);
    }
  });
}

TEST_P(RegisteredTest, AllGatherAndGatherBringEverybodys) {
  world.run([&](NativeBackend& rank) {
    Values mine = values(rank, count);
    std::vector<std::int64_t> all(count * ranks());
    std::vector<std::vector<std::int64_t>> parts(ranks(), std::vector<std::int64_t>(count));
    for (int turn = 0; turn < 3 * n; ++turn) {
      const int root = turn % n;
      mine.fill(first(rank.rank()) + turn);
      rank.allGatherSingle(Tensor(all), mine.tensor(), {.asyncOp = false})->wait();
      std::vector<Tensor> outputs;
      for (auto& part : parts) {
        outputs.emplace_back(part);
      }
      const bool isRoot = root == rank.rank();
      rank.gather(isRoot ? TensorLists{outputs} : TensorLists(), {mine.tensor()},
                  {.rootRank = root, .asyncOp = false})
          ->wait();
      for (int peer = 0; peer < n; ++peer) {
        const auto at = static_cast<std::size_t>(peer) * count;
        ASSERT_EQ(all[at], first(peer) + turn);
        ASSERT_EQ(all[at + count - 1], first(peer) + turn + static_cast<std::int64_t>(count) - 1);
        if (isRoot) {
          ASSERT_TRUE(std::equal(all.begin() + static_cast<std::ptrdiff_t>(at),
                                 all.begin() + static_cast<std::ptrdiff_t>(at + count),
                                 parts[static_cast<std::size_t>(peer)].begin()));
        }
      }
    }
  });
}

TEST_P(RegisteredTest, ReduceScatterAndAllToAllBringTheOwnParts) {
  world.run([&](NativeBackend& rank) {
    Values mine = values(rank, count * ranks());
    std::vector<std::int64_t> part(count);
    std::vector<std::int64_t> mixed(count * ranks());
    const auto begin = static_cast<std::int64_t>(count) * rank.rank();
    for (int turn = 0; turn < 4; ++turn) {
      mine.fill(first(rank.rank()) + turn);
      rank.reduceScatterSingle(Tensor(part), mine.tensor(), {.asyncOp = false})->wait();
      rank.allToAllSingle(Tensor(mixed), mine.tensor(), {}, {}, {.asyncOp = false})->wait();
      std::int64_t sum = 0;
      for (int peer = 0; peer < n; ++peer) {
        sum += first(peer) + turn + begin;
        const auto at = static_cast<std::size_t>(peer) * count;
        ASSERT_EQ(mixed[at], first(peer) + turn + begin) << "from " << peer;
        ASSERT_EQ(mixed[at + count - 1],
                  first(peer) + turn + begin + static_cast<std::int64_t>(count) - 1);
      }
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(part[i], sum + n * static_cast<std::int64_t>(i)) << i;
      }
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // The longest that is small, the first that is reached where it lies, one of several rounds.
  for (const std::size_t count : {512U, 519U, 20'001U}) {
    all.push_back({1, Kind::ALL, count});
    for (const int ranks : {2, 3, 5}) {
      for (const Kind kind : {Kind::NONE, Kind::ALL, Kind::ODD, Kind::FIRST}) {
        all.push_back({ranks, kind, count});
        if (kind != Kind::ALL) {
          all.push_back({ranks, kind, count, true});
        }
      }
    }
  }
  return all;
}

std::string nameOf(const ::testing::TestParamInfo<Case>& test) {
  constexpr const char* kKinds[] = {"None", "All", "Odd", "First"};
  const Case& row = test.param;
  return str(row.ranks, "Ranks", kKinds[static_cast<std::size_t>(row.kind)], row.count,
             row.pulls ? "Pulled" : "");
}

INSTANTIATE_TEST_SUITE_P(Memory, RegisteredTest, ::testing::ValuesIn(cases()), nameOf);

class PulledTest : public ::testing::TestWithParam<int> {
 protected:
  const int n = GetParam();
  const test::ScopedEnv way{"UNISONO_ALGO", "blocks=pull"};
  NativeWorld world{n};
};
INSTANTIATE_TEST_SUITE_P(Ranks, PulledTest, ::testing::Values(2, 3, 5));

TEST_P(PulledTest, ScatterAndAllToAllFindListsOfTensors) {
  world.run([&](NativeBackend& rank) {
    for (int turn = 0; turn < 3 * n; ++turn) {
      const int root = turn % n;
      const std::size_t count = 5001 + static_cast<std::size_t>(turn);
      std::vector<std::vector<int>> given;
      std::vector<std::vector<int>> got;
      std::vector<Tensor> inputs;
      std::vector<Tensor> outputs;
      for (int peer = 0; peer < n; ++peer) {
        given.emplace_back(count, 1000 * rank.rank() + 10 * peer + turn);
        got.emplace_back(count);
      }
      for (std::size_t peer = 0; peer < given.size(); ++peer) {
        inputs.emplace_back(given[peer]);
        outputs.emplace_back(got[peer]);
      }
      rank.scatter({outputs[0]}, root == rank.rank() ? TensorLists{inputs} : TensorLists(),
                   {.rootRank = root, .asyncOp = false})
          ->wait();
      ASSERT_THAT(got[0], Each(1000 * root + 10 * rank.rank() + turn));
      rank.allToAll(outputs, inputs, {.asyncOp = false})->wait();
      for (int peer = 0; peer < n; ++peer) {
        ASSERT_THAT(got[static_cast<std::size_t>(peer)],
                    Each(1000 * peer + 10 * rank.rank() + turn));
      }
    }
  });
}

TEST_P(PulledTest, AllGatherInPlaceAndUnevenAllToAll) {
  world.run([&](NativeBackend& rank) {
    for (std::int64_t turn = 0; turn < 6; ++turn) {
      const std::int64_t count = 3001 + turn;
      std::vector<std::int64_t> all(static_cast<std::size_t>(n * count), -1);
      const std::span mine = std::span(all).subspan(static_cast<std::size_t>(rank.rank() * count),
                                                    static_cast<std::size_t>(count));
      std::iota(mine.begin(), mine.end(), first(rank.rank()) + turn);
      rank.allGatherSingle(Tensor(all), Tensor(mine), {.asyncOp = false})->wait();
      for (int peer = 0; peer < n; ++peer) {
        ASSERT_EQ(all[static_cast<std::size_t>((peer + 1) * count - 1)],
                  first(peer) + turn + count - 1);
      }
      // Rank r gives p * count to rank p: nothing to the first.
      std::vector<std::int64_t> give;
      for (int peer = 0; peer < n; ++peer) {
        give.push_back(peer * count);
      }
      const std::vector<std::int64_t> take(static_cast<std::size_t>(n), rank.rank() * count);
      std::vector<std::int64_t> in(static_cast<std::size_t>(n * (n - 1) / 2 * count), rank.rank());
      std::vector<std::int64_t> out(static_cast<std::size_t>(n * rank.rank() * count), -1);
      rank.allToAllSingle(Tensor(out), Tensor(in), take, give, {.asyncOp = false})->wait();
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], static_cast<std::int64_t>(i) / (rank.rank() * count));
      }
    }
  });
}

TEST(RegisteredSplitsTest, AllToAllFindsUnevenParts) {
  NativeWorld world{3};
  world.run([&](NativeBackend& rank) {
    // Rank r gives (p + 1) * 700 to rank p.
    const std::vector<std::int64_t> give = {700, 1400, 2100};
    const std::vector<std::int64_t> take(3, (rank.rank() + 1) * 700);
    const Tensor in = rank.allocateTensor(4200, DType::INT64);
    std::iota(in.dataAs<std::int64_t>(), in.dataAs<std::int64_t>() + 4200, first(rank.rank()));
    std::vector<std::int64_t> out(static_cast<std::size_t>(3 * take[0]));
    rank.allToAllSingle(Tensor(out), in, take, give, {.asyncOp = false})->wait();
    const std::int64_t begin = rank.rank() == 0 ? 0 : rank.rank() == 1 ? 700 : 2100;
    for (int peer = 0; peer < 3; ++peer) {
      ASSERT_EQ(out[static_cast<std::size_t>(peer * take[0])], first(peer) + begin);
      ASSERT_EQ(out[static_cast<std::size_t>((peer + 1) * take[0] - 1)],
                first(peer) + begin + take[0] - 1);
    }
  });
}

TEST(RegisteredViewsTest, APartOfATensorIsReachedToo) {
  NativeWorld world{2};
  world.run([&](NativeBackend& rank) {
    const Tensor whole = rank.allocateTensor(10'000, DType::FLOAT32);
    const std::span<float> part(whole.dataAs<float>() + 1001, 5000);
    std::fill(part.begin(), part.end(), 1.0F);
    rank.allreduce({Tensor(part)}, {.asyncOp = false})->wait();
    EXPECT_THAT(part, Each(2.0F));
    EXPECT_EQ(whole.dataAs<float>()[1000], 0.0F);
    EXPECT_EQ(whole.dataAs<float>()[6001], 0.0F);
  });
}

TEST(RegisteredLifeTest, ATensorOutlivesItsGroupAndTheNextTakesItsPlace) {
  Tensor kept;
  {
    NativeWorld world{2};
    world.run([&](NativeBackend& rank) {
      for (int turn = 0; turn < 200; ++turn) {  // many more than there may be at a time
        const Tensor tensor = rank.allocateTensor(2000, DType::INT32);
        std::fill_n(tensor.dataAs<std::int32_t>(), 2000, turn);
        rank.allreduce({tensor}, {.asyncOp = false})->wait();
        ASSERT_EQ(tensor.dataAs<std::int32_t>()[1999], 2 * turn);
        if (rank.rank() == 0) {
          kept = tensor;
        }
      }
    });
  }
  EXPECT_EQ(kept.dataAs<std::int32_t>()[0], 398);
}

TEST(RegisteredLimitsTest, WhatCannotBeHadIsRefused) {
  NativeWorld world{1};
  EXPECT_TRUE(world[0].supportsTensorAlloc({}));
  EXPECT_FALSE(world[0].supportsTensorAlloc({.type = DeviceType::CUDA}));
  EXPECT_THAT(textOf<UsageError>([&] { world[0].allocateTensor(-1, DType::INT8); }),
              HasSubstr("a tensor cannot have -1 elements"));
  EXPECT_THAT(
      textOf<DistError>([&] { world[0].allocateTensor(std::int64_t{1} << 50U, DType::INT8); }),
      AllOf(HasSubstr("[RESOURCE]"), HasSubstr("a tensor of group 'g'")));
  std::vector<Tensor> many;
  for (std::size_t i = 0; i < shm::kMostBlocks; ++i) {
    many.push_back(world[0].allocateTensor(0, DType::INT8));
  }
  EXPECT_THAT(textOf<DistError>([&] { world[0].allocateTensor(1, DType::INT8); }),
              AllOf(HasSubstr("[LIMIT]"), HasSubstr("256 registered tensors already")));
  many.pop_back();
  many.push_back(world[0].allocateTensor(1, DType::INT8));
}

}  // namespace
}  // namespace unisono
