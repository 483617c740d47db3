// As many ranks as a group of one host is promised for, on however few cores.
#include <gmock/gmock.h>
#include <numeric>

#include "unisono/group/group.hpp"

#include "backend/any_rank.hpp"
#include "backend/native_world.hpp"
#include "group/in_world.hpp"
#include "support/effort.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kRankCounts[] = {test::effort(64, 16), test::effort(128, 33)};
constexpr std::size_t kCounts[] = {1, 9, 1200};  // lines, slots, several pages

class ManyRanksTest : public ::testing::TestWithParam<int> {
 protected:
  using Row = std::vector<std::int64_t>;
  const int n_ = GetParam();
  const std::size_t ranks_ = static_cast<std::size_t>(GetParam());

  /// What `from` gives to `to`, each place another number.
  static Row given(int from, int to, std::size_t count) {
    Row row(count);
    std::iota(row.begin(), row.end(), from * 1'000'000 + to * 2'000);
    return row;
  }
  /// The sum of what all give to `to`.
  Row summed(int to, std::size_t count) const {
    Row row(count);
    for (std::size_t i = 0; i < count; ++i) {
      row[i] = std::int64_t{n_} * (n_ - 1) / 2 * 1'000'000 +
               n_ * (to * 2'000 + static_cast<std::int64_t>(i));
    }
    return row;
  }
  template <typename Of>
  Row joined(Of of) const {
    Row all;
    for (int rank = 0; rank < n_; ++rank) {
      const Row part = of(rank);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  /// Every operation once, with blocks of `count` elements.
  void doAll(test::AnyRank& rank, std::size_t count) const {
    const int me = rank.rank();
    const int root = n_ / 2 + 1;
    Row data = given(me, 0, count);
    rank.allreduce({Tensor(data)});
    EXPECT_EQ(data, summed(0, count));

    data = given(me, 0, count);
    rank.reduce({Tensor(data)}, {.rootRank = root});
    EXPECT_EQ(data, me == root ? summed(0, count) : given(me, 0, count));
    rank.broadcast({Tensor(data)}, {.rootRank = root});
    EXPECT_EQ(data, summed(0, count));

    Row mine = given(me, 0, count);
    Row all(count * ranks_);
    rank.allGatherSingle(Tensor(all), Tensor(mine));
    EXPECT_EQ(all, joined([&](int from) { return given(from, 0, count); }));

    Row toAll = joined([&](int to) { return given(me, to, count); });
    rank.reduceScatterSingle(Tensor(mine), Tensor(toAll));
    EXPECT_EQ(mine, summed(me, count));
    rank.allToAllSingle(Tensor(all), Tensor(toAll));
    EXPECT_EQ(all, joined([&](int from) { return given(from, me, count); }));

    TensorLists blocks(me == root ? 1 : 0);
    for (std::size_t i = 0; me == root && i < ranks_; ++i) {
      blocks[0].push_back(slice(Tensor(all), static_cast<std::int64_t>(i * count),
                                static_cast<std::int64_t>(count)));
    }
    rank.scatter({Tensor(mine)}, blocks, {.rootRank = root});
    EXPECT_EQ(mine, given(me, root, count));
    std::fill(all.begin(), all.end(), -1);
    rank.gather(blocks, {Tensor(mine)}, {.rootRank = root});
    EXPECT_EQ(all, me == root ? joined([&](int from) { return given(from, root, count); })
                              : Row(all.size(), -1));
    rank.barrier();
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, ManyRanksTest, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST_P(ManyRanksTest, DoEveryOperation) {
  NativeWorld world(n_);
  world.run([&](NativeBackend& backend) {
    test::NativeRank rank(backend);
    for (const std::size_t count : kCounts) {
      doAll(rank, count);
    }
  });
}

TEST_P(ManyRanksTest, PassMessagesInARing) {
  NativeWorld world(n_);
  world.run([&](NativeBackend& rank) {
    for (const std::size_t count : kCounts) {
      const int before = (rank.rank() + n_ - 1) % n_;
      Row mine = given(rank.rank(), 0, count);
      Row got(count);
      const WorkPtr sent = rank.send({Tensor(mine)}, (rank.rank() + 1) % n_, 7);
      rank.recv({Tensor(got)}, before, 7)->wait();
      sent->wait();
      EXPECT_EQ(got, given(before, 0, count));
    }
  });
}

TEST_P(ManyRanksTest, WorkInPartsOfTheGroup) {
  test::inWorld(n_, [&](Group all) {
    std::optional<Group> part = all.split(all.rank() % 3);
    const auto members = static_cast<std::int64_t>((n_ - all.rank() % 3 + 2) / 3);
    Row ones(5, 1);
    part->allReduce(ones);
    EXPECT_THAT(ones, Each(members));
    all.allReduce(ones);
    std::int64_t squares = 0;
    for (int rank = 0; rank < n_; ++rank) {
      squares += (n_ - rank % 3 + 2) / 3;
    }
    EXPECT_THAT(ones, Each(squares));
  });
}

TEST(ManyRanksErrorTest, AllAreToldOfACallThatDoesNotMatch) {
  NativeWorld world(kRankCounts[0]);
  const auto thrown = world.outcomes([&](NativeBackend& rank) {
    std::vector<std::int64_t> data(rank.rank() == world.size() - 2 ? 11 : 10);
    rank.allreduce({Tensor(data)}, {.asyncOp = false})->wait();
    rank.barrier({.asyncOp = false})->wait();
  });
  for (const std::exception_ptr& each : thrown) {
    EXPECT_THAT(textOfThrown(each), AllOf(HasSubstr("[MISMATCH]"), HasSubstr("int64[11]")));
  }
}

TEST(ManyRanksErrorTest, AllAreToldOfAnAbort) {
  NativeWorld world(kRankCounts[0]);
  const auto thrown = world.outcomes([&](NativeBackend& rank) {
    if (rank.rank() == world.size() - 1) {
      rank.abort(nullptr);
      return;
    }
    std::vector<std::int64_t> data(10);
    rank.allreduce({Tensor(data)}, {.asyncOp = false})->wait();
  });
  for (int rank = 0; rank < world.size() - 1; ++rank) {
    EXPECT_THAT(textOfThrown(thrown[static_cast<std::size_t>(rank)]), HasSubstr("[ABORTED]"));
  }
}

}  // namespace
}  // namespace unisono
