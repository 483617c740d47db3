// What every operation does with tensors, whichever way the ranks reach each other.
#include <gmock/gmock.h>
#include <memory>
#include <numeric>

#include "unisono/tensor/half.hpp"

#include "backend/any_rank.hpp"
#include "backend/native_world.hpp"
#include "base/str.hpp"
#include "support/loopback_world.hpp"

namespace unisono {
namespace {

using test::AnyRank;
using test::LoopbackWorld;
using test::NativeWorld;
using test::textOfThrown;
using ::testing::Each;
using ::testing::ElementsAre;

/// How ranks reach each other, and what UNISONO_ALGO says.
struct Reach {
  const char* name;
  bool byLinks;
  const char* forced;
};
constexpr Reach kReaches[] = {
    {"Links", true, ""},
    {"LinksLarge", true, test::kLinksForLarge},
    {"Native", false, ""},
    {"NativeSlots", false, "allreduce=slices,blocks=slots"},
    {"NativePull", false, "blocks=pull"},
};

class OperationsTest : public ::testing::TestWithParam<std::tuple<Reach, int>> {
 protected:
  const Reach reach_ = std::get<0>(GetParam());
  const int n_ = std::get<1>(GetParam());

  void run(const std::function<void(AnyRank&)>& body) {
    for (const std::exception_ptr& thrown : reach_.byLinks ? byLinks(body) : natively(body)) {
      ASSERT_EQ(textOfThrown(thrown), "");
    }
  }

 private:
  std::vector<std::exception_ptr> byLinks(const std::function<void(AnyRank&)>& body) const {
    std::vector<int> globalRanks(static_cast<std::size_t>(n_));
    std::iota(globalRanks.begin(), globalRanks.end(), 10);
    const links::LinkSelector selector = test::linksForcedTo(reach_.forced);
    LoopbackWorld world(n_, {.room = 0});
    return world.outcomes([&](Communicator& comm) {
      test::LinkRank rank(comm, selector, globalRanks);
      body(rank);
    });
  }
  std::vector<std::exception_ptr> natively(const std::function<void(AnyRank&)>& body) const {
    const test::ScopedEnv algorithm("UNISONO_ALGO", reach_.forced);
    NativeWorld world(n_);
    return world.outcomes([&](NativeBackend& backend) {
      test::NativeRank rank(backend);
      body(rank);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, OperationsTest,
                         ::testing::Combine(::testing::ValuesIn(kReaches), ::testing::Range(1, 6)),
                         [](const auto& param) {
                           return str(std::get<0>(param.param).name, std::get<1>(param.param));
                         });

/// Element i of what rank r has.
int valueOf(int rank, std::size_t i) {
  return rank * 100 + static_cast<int>(i % 50);
}
std::vector<int> valuesOf(int rank, std::size_t count) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = valueOf(rank, i);
  }
  return values;
}
std::vector<int> sumsOf(int ranks, std::size_t count) {
  std::vector<int> sums(count);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] += valueOf(rank, i);
    }
  }
  return sums;
}

/// Every second element of a longer row.
class Gaps {
 public:
  explicit Gaps(const std::vector<int>& values) : memory_(values.size() * 2 + 1, -7) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      memory_[2 * i] = values[i];
    }
  }
  Tensor tensor() {
    return {memory_.data(), DType::INT32, Dims{static_cast<std::int64_t>(memory_.size() / 2)},
            Dims{2}};
  }
  std::vector<int> values() const {
    std::vector<int> values;
    for (std::size_t i = 0; i + 1 < memory_.size(); i += 2) {
      values.push_back(memory_[i]);
      EXPECT_EQ(memory_[i + 1], -7) << "what lies between is left alone";
    }
    return values;
  }

 private:
  std::vector<int> memory_;
};

std::vector<Tensor> tensorsOf(std::vector<std::vector<int>>& all) {
  std::vector<Tensor> tensors;
  for (std::vector<int>& each : all) {
    tensors.emplace_back(each);
  }
  return tensors;
}

TEST_P(OperationsTest, AllReducesTensorsOfAnySizeAndStride) {
  run([&](AnyRank& rank) {
    for (const std::size_t count : {0U, 1U, 7U, 1000U, 300'000U}) {
      std::vector<int> data = valuesOf(rank.rank(), count);
      rank.allreduce({Tensor(data)});
      ASSERT_EQ(data, sumsOf(n_, count));
    }
    Gaps gaps(valuesOf(rank.rank(), 77));
    rank.allreduce({gaps.tensor()});
    EXPECT_EQ(gaps.values(), sumsOf(n_, 77));
  });
}

TEST_P(OperationsTest, AllReducesByEveryOperation) {
  run([&](AnyRank& rank) {
    const auto r = static_cast<float>(rank.rank());
    const auto reduced = [&](ReduceOp op) {
      std::vector<float> data(33, r + 1);
      rank.allreduce({Tensor(data)}, {.reduceOp = op});
      EXPECT_THAT(data, Each(data[0]));
      return data[0];
    };
    const auto n = static_cast<float>(n_);
    EXPECT_EQ(reduced(ReduceOp::AVG), (n + 1) / 2);
    EXPECT_EQ(reduced(ReduceOp::MIN), 1);
    EXPECT_EQ(reduced(ReduceOp::MAX), n);
    constexpr float kFactorials[] = {1, 1, 2, 6, 24, 120};
    EXPECT_EQ(reduced(ReduceOp::PRODUCT), kFactorials[n_]);
    EXPECT_EQ(reduced(ReduceOp::preMulSum(0.5)), n * (n + 1) / 4);
    std::vector<Half> halves(9, Half(r));
    rank.allreduce({Tensor(halves)}, {.reduceOp = ReduceOp::AVG});
    EXPECT_EQ(static_cast<float>(halves[8]), (n - 1) / 2);
  });
}

TEST_P(OperationsTest, AllReducesSeveralTensorsWithEachOtherOrAsOne) {
  run([&](AnyRank& rank) {
    std::vector<int> first = valuesOf(rank.rank(), 50);
    Gaps second(valuesOf(rank.rank(), 50));
    rank.allreduce({Tensor(first), second.tensor()});
    std::vector<int> right = sumsOf(n_, 50);
    for (int& each : right) {
      each *= 2;
    }
    EXPECT_EQ(first, right);
    EXPECT_EQ(second.values(), right);

    std::vector<int> one = valuesOf(rank.rank(), 3);
    std::vector<int> none;
    Gaps other(valuesOf(rank.rank(), 20));
    rank.allreduceCoalesced({Tensor(one), Tensor(none), other.tensor()});
    EXPECT_EQ(one, sumsOf(n_, 3));
    EXPECT_EQ(other.values(), sumsOf(n_, 20));
  });
}

TEST_P(OperationsTest, ReducesToTheRootOnly) {
  run([&](AnyRank& rank) {
    for (const int root : {0, n_ - 1}) {
      for (const std::size_t count : {0U, 5U, 20'000U}) {
        std::vector<int> data = valuesOf(rank.rank(), count);
        rank.reduce({Tensor(data)}, {.rootRank = root});
        ASSERT_EQ(data, rank.rank() == root ? sumsOf(n_, count) : valuesOf(rank.rank(), count));
      }
      Gaps gaps(valuesOf(rank.rank(), 31));
      rank.reduce({gaps.tensor()}, {.rootRank = root});
      ASSERT_EQ(gaps.values(), rank.rank() == root ? sumsOf(n_, 31) : valuesOf(rank.rank(), 31));
    }
  });
}

TEST_P(OperationsTest, BroadcastsATensorOfTheRootToAllOfAllRanks) {
  run([&](AnyRank& rank) {
    for (const int root : {0, n_ - 1}) {
      for (const std::size_t count : {0U, 5U, 20'000U}) {
        std::vector<int> data = valuesOf(rank.rank(), count);
        rank.broadcast({Tensor(data)}, {.rootRank = root});
        ASSERT_EQ(data, valuesOf(root, count));
      }
      std::vector<int> first(40);
      Gaps second(valuesOf(rank.rank(), 40));
      rank.broadcast({Tensor(first), second.tensor()}, {.rootRank = root, .rootTensor = 1});
      EXPECT_EQ(first, valuesOf(root, 40));
      EXPECT_EQ(second.values(), valuesOf(root, 40));
    }
  });
}

TEST_P(OperationsTest, GathersBlocksOfDifferentSizesOnAllRanks) {
  run([&](AnyRank& rank) {
    const auto sizeOf = [](int r) { return static_cast<std::size_t>(r % 3) * 17; };
    std::vector<int> mine = valuesOf(rank.rank(), sizeOf(rank.rank()));
    std::vector<std::vector<int>> all;
    for (int peer = 0; peer < n_; ++peer) {
      all.emplace_back(sizeOf(peer));
    }
    rank.allgather({tensorsOf(all)}, {Tensor(mine)});
    for (int peer = 0; peer < n_; ++peer) {
      EXPECT_EQ(all[static_cast<std::size_t>(peer)], valuesOf(peer, sizeOf(peer)));
    }
    // With several inputs, and strided.
    Gaps first(valuesOf(rank.rank(), 4));
    Gaps second(valuesOf(rank.rank() + 50, 4));
    std::vector<std::vector<int>> lists(static_cast<std::size_t>(n_) * 4, std::vector<int>(4));
    const std::vector<Tensor> views = tensorsOf(lists);
    const auto half = static_cast<std::ptrdiff_t>(views.size() / 2);
    rank.allgather({{views.begin(), views.begin() + half}, {views.begin() + half, views.end()}},
                   {first.tensor(), second.tensor()});
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const int peer = static_cast<int>(i / 2) % n_;
      EXPECT_EQ(lists[i], valuesOf(i % 2 == 0 ? peer : peer + 50, 4));
    }
  });
}

TEST_P(OperationsTest, GathersIntoOneTensorAndCoalesced) {
  run([&](AnyRank& rank) {
    const auto ranks = static_cast<std::size_t>(n_);
    for (const std::size_t count : {0U, 3U, 9000U}) {
      std::vector<int> mine = valuesOf(rank.rank(), count);
      std::vector<int> all(count * ranks);
      rank.allGatherSingle(Tensor(all), Tensor(mine));
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], valueOf(static_cast<int>(i / count), i % count));
      }
    }
    Gaps mine(valuesOf(rank.rank(), 2));
    Gaps all(std::vector<int>(2 * ranks));
    std::vector<int> small{rank.rank()};
    std::vector<int> smalls(ranks);
    rank.allGatherSingleCoalesced({all.tensor(), Tensor(smalls)}, {mine.tensor(), Tensor(small)});
    std::vector<std::vector<int>> parts(2 * ranks);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].resize(i % 2 + 1);
    }
    std::vector<int> longer{rank.rank(), 5};
    TensorLists lists;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      lists.push_back({Tensor(parts[2 * peer]), Tensor(parts[2 * peer + 1])});
    }
    rank.allgatherCoalesced(lists, {Tensor(small), Tensor(longer)});
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const int p = static_cast<int>(peer);
      EXPECT_EQ(all.values()[2 * peer + 1], valueOf(p, 1));
      EXPECT_EQ(smalls[peer], p);
      EXPECT_THAT(parts[2 * peer], ElementsAre(p));
      EXPECT_THAT(parts[2 * peer + 1], ElementsAre(p, 5));
    }
  });
}

TEST_P(OperationsTest, GathersToTheRootAndScattersFromIt) {
  run([&](AnyRank& rank) {
    for (const int root : {0, n_ - 1}) {
      for (const std::size_t count : {0U, 9U}) {
        Gaps mine(valuesOf(rank.rank(), count));
        std::vector<std::vector<int>> all(static_cast<std::size_t>(n_), std::vector<int>(count));
        const bool isRoot = rank.rank() == root;
        rank.gather(isRoot ? TensorLists{tensorsOf(all)} : TensorLists{}, {mine.tensor()},
                    {.rootRank = root});
        for (int peer = 0; isRoot && peer < n_; ++peer) {
          EXPECT_EQ(all[static_cast<std::size_t>(peer)], valuesOf(peer, count));
        }
        Gaps back(std::vector<int>(count, 0));
        rank.scatter({back.tensor()}, isRoot ? TensorLists{tensorsOf(all)} : TensorLists{},
                     {.rootRank = root});
        EXPECT_EQ(back.values(), valuesOf(rank.rank(), count));
      }
    }
  });
}

TEST_P(OperationsTest, ReduceScattersListsAndSingleTensors) {
  run([&](AnyRank& rank) {
    const auto ranks = static_cast<std::size_t>(n_);
    const auto me = static_cast<std::size_t>(rank.rank());
    std::vector<std::vector<int>> given;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      given.push_back(valuesOf(rank.rank(), 10 * peer));
    }
    std::vector<int> block(10 * me);
    rank.reduceScatter({Tensor(block)}, {tensorsOf(given)});
    EXPECT_EQ(block, sumsOf(n_, 10 * me));

    for (const std::size_t count : {0U, 4U, 9000U}) {
      std::vector<int> whole = valuesOf(rank.rank(), count * ranks);
      const std::vector<int> sums = sumsOf(n_, count * ranks);
      std::vector<int> part(count);
      rank.reduceScatterSingle(Tensor(part), Tensor(whole));
      const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(count * me);
      ASSERT_EQ(part, std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
    Gaps whole(valuesOf(rank.rank(), 3 * ranks));
    Gaps part(std::vector<int>(3, 0));
    std::vector<float> numbers(ranks, static_cast<float>(rank.rank()));
    std::vector<int> sevens(ranks, 7);
    std::vector<int> seven(1);
    rank.reduceScatterSingleCoalesced({part.tensor(), Tensor(seven)},
                                      {whole.tensor(), Tensor(sevens)},
                                      {.reduceOp = ReduceOp::AVG});
    EXPECT_EQ(part.values()[2], sumsOf(n_, 3 * ranks)[3 * me + 2] / n_);
    EXPECT_EQ(seven[0], 7);
  });
}

TEST_P(OperationsTest, ExchangesListsAndRowsOfDifferentSizes) {
  run([&](AnyRank& rank) {
    const auto ranks = static_cast<std::size_t>(n_);
    const int me = rank.rank();
    const auto sizeOf = [](int from, int to) {
      return static_cast<std::size_t>((from * 2 + to) % 3);
    };
    std::vector<std::vector<int>> given;
    std::vector<std::vector<int>> taken;
    std::vector<std::int64_t> givenRows;
    std::vector<std::int64_t> takenRows;
    std::vector<int> rows;
    for (int peer = 0; peer < n_; ++peer) {
      given.push_back(valuesOf(me * 10 + peer, 2 * sizeOf(me, peer)));
      taken.emplace_back(2 * sizeOf(peer, me));
      givenRows.push_back(static_cast<std::int64_t>(sizeOf(me, peer)));
      takenRows.push_back(static_cast<std::int64_t>(sizeOf(peer, me)));
      rows.insert(rows.end(), given.back().begin(), given.back().end());
    }
    rank.allToAll(tensorsOf(taken), tensorsOf(given));
    std::vector<int> right;
    for (int peer = 0; peer < n_; ++peer) {
      const std::vector<int> block = valuesOf(peer * 10 + me, 2 * sizeOf(peer, me));
      EXPECT_EQ(taken[static_cast<std::size_t>(peer)], block);
      right.insert(right.end(), block.begin(), block.end());
    }
    std::vector<int> out(right.size());
    const auto asRows = [](std::vector<int>& all) {
      return Tensor(all.data(), DType::INT32, {static_cast<std::int64_t>(all.size() / 2), 2});
    };
    rank.allToAllSingle(asRows(out), asRows(rows), takenRows, givenRows);
    EXPECT_EQ(out, right);

    std::vector<int> equal = valuesOf(me, ranks);
    std::vector<int> turned(ranks);
    rank.allToAllSingle(Tensor(turned), Tensor(equal));
    for (int peer = 0; peer < n_; ++peer) {
      EXPECT_EQ(turned[static_cast<std::size_t>(peer)],
                valueOf(peer, static_cast<std::size_t>(me)));
    }
    std::vector<int> none;
    std::vector<std::vector<int>> nones(ranks);
    rank.allToAllSingle(Tensor(none), Tensor(none));
    rank.allToAll(tensorsOf(nones), tensorsOf(nones));
  });
}

}  // namespace
}  // namespace unisono
