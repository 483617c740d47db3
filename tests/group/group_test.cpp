#include "unisono/group/group.hpp"

#include <array>
#include <gmock/gmock.h>
#include <numeric>

#include "unisono/store/hash_store.hpp"

#include "base/str.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::inWorld;
using test::textOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GroupTest, WorksOnAnythingContiguous) {
  inWorld(3, [](Group world) {
    std::vector<float> vector(10, 1);
    std::array<double, 3> array = {1, 2, static_cast<double>(world.rank())};
    int number[1] = {world.rank()};

    world.allReduce(vector);
    world.allReduce(array, {.op = ReduceOp::MAX});
    world.allReduce(std::span(number), {.op = ReduceOp::PRODUCT});
    world.allReduce(Tensor(vector), {.op = ReduceOp::AVG});

    EXPECT_THAT(vector, Each(3.0F));
    EXPECT_THAT(array, ElementsAre(1, 2, 2));
    EXPECT_EQ(number[0], 0);
  });
}

TEST(GroupTest, MovesValuesBetweenRanks) {
  inWorld(4, [](Group world) {
    std::vector<int> data(5, world.rank());
    world.broadcast(data, {.root = 2});
    EXPECT_THAT(data, Each(2));

    const std::vector<std::int64_t> mine = {world.rank(), 10L * world.rank()};
    std::vector<std::int64_t> all(8);
    world.allGather(mine, all);
    EXPECT_THAT(all, ElementsAre(0, 0, 1, 10, 2, 20, 3, 30));

    std::vector<std::int64_t> part(2);
    world.reduceScatter(all, part);
    EXPECT_THAT(part, ElementsAre(4 * world.rank(), 40 * world.rank()));

    const std::vector<int> give(4, world.rank());
    std::vector<int> take(4);
    world.allToAll(give, take);
    EXPECT_THAT(take, ElementsAre(0, 1, 2, 3));

    std::vector<int> sum(2, 1);
    world.reduce(sum, {.root = 1});
    EXPECT_THAT(sum, Each(world.rank() == 1 ? 4 : 1));
    world.barrier();
  });
}

TEST(GroupTest, GathersToAndScattersFromTheRoot) {
  inWorld(3, [](Group world) {
    const bool isRoot = world.rank() == 1;
    const std::vector<int> mine(2, world.rank());
    std::vector<std::vector<int>> got(3, std::vector<int>(2, -1));
    std::vector<Tensor> all;
    for (std::vector<int>& each : got) {
      if (isRoot) {
        all.emplace_back(each);
      }
    }
    world.gather(mine, all, {.root = 1});
    for (int rank = 0; isRoot && rank < 3; ++rank) {
      EXPECT_THAT(got[static_cast<std::size_t>(rank)], Each(rank));
    }

    std::vector<int> back(2, -1);
    world.scatter(all, back, {.root = 1});
    EXPECT_THAT(back, Each(world.rank()));
  });
}

/// Views of `parts`.
std::vector<Tensor> tensorsOf(std::vector<std::vector<int>>& parts) {
  return {parts.begin(), parts.end()};
}

/// Part p has p + 1 elements, all `value(p)`.
template <typename Value>
std::vector<std::vector<int>> stairs(int size, Value value) {
  std::vector<std::vector<int>> parts;
  for (int p = 0; p < size; ++p) {
    parts.emplace_back(static_cast<std::size_t>(p + 1), value(p));
  }
  return parts;
}

TEST(GroupTest, TakesListsOfTensorsWhoseSizesDiffer) {
  inWorld(3, [](Group world) {
    const int me = world.rank();
    const auto none = [](int) { return -1; };

    const std::vector<int> mine(static_cast<std::size_t>(me + 1), me);
    auto gathered = stairs(3, none);
    world.allGather(mine, tensorsOf(gathered));
    EXPECT_EQ(gathered, stairs(3, [](int p) { return p; }));

    auto give = stairs(3, [&](int p) { return 10 * me + p; });
    std::vector<int> part(mine.size(), -1);
    world.reduceScatter(tensorsOf(give), part);
    EXPECT_THAT(part, Each(10 * (0 + 1 + 2) + 3 * me));

    std::vector<std::vector<int>> taken(3, part);
    const std::vector<Tensor> into = tensorsOf(taken);
    world.allToAll(tensorsOf(give), into, {.async = true})->wait();
    for (int from = 0; from < 3; ++from) {
      EXPECT_THAT(taken[static_cast<std::size_t>(from)], Each(10 * from + me));
    }
  });
}

TEST(GroupTest, RefusesListsThatDoNotFitTheGroup) {
  inWorld(2, [](Group world) {
    std::vector<int> mine(1);
    std::vector<std::vector<int>> three(3, mine);
    EXPECT_THROW(world.allGather(mine, tensorsOf(three)), UsageError);
    EXPECT_THROW(world.reduceScatter(tensorsOf(three), mine), UsageError);
    EXPECT_THROW(world.allToAll(tensorsOf(three), tensorsOf(three)), UsageError);

    world.barrier();  // nobody has lost step
  });
}

TEST(GroupTest, ExchangesDifferentNumbersOfRows) {
  inWorld(2, [](Group world) {
    // Rank r gives r + 1 elements to rank 0 and 3 to rank 1.
    const std::vector<std::int64_t> given = {world.rank() + 1, 3};
    const std::vector<std::int64_t> taken =
        world.rank() == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{3, 3};
    const std::vector<int> give(static_cast<std::size_t>(world.rank() + 4), world.rank());
    std::vector<int> take(world.rank() == 0 ? 3 : 6, -1);
    world.allToAll(give, take, {.inputSplits = given, .outputSplits = taken});
    if (world.rank() == 0) {
      EXPECT_THAT(take, ElementsAre(0, 1, 1));
    } else {
      EXPECT_THAT(take, ElementsAre(0, 0, 0, 1, 1, 1));
    }
  });
}

TEST(GroupTest, AMonitoredBarrierSaysWhoHasNotCome) {
  inWorld(2, [](Group world) {
    world.monitoredBarrier();
    if (world.rank() == 0) {
      EXPECT_THAT(textOf<DistError>(
                      [&] { world.monitoredBarrier({.timeout = std::chrono::milliseconds(50)}); }),
                  HasSubstr("rank 1"));
    }
  });
}

TEST(GroupTest, SendsMessages) {
  inWorld(3, [](Group world) {
    const int next = (world.rank() + 1) % 3;
    const std::vector<int> mine(2, world.rank());
    std::vector<int> theirs(2);
    std::vector<int> anybodys(2);
    world.send(mine, next);
    world.send(mine, next, {.tag = 4});

    const WorkPtr work = world.recv(anybodys, std::nullopt, {.tag = 4});
    world.recv(theirs, (world.rank() + 2) % 3);

    EXPECT_THAT(theirs, Each((world.rank() + 2) % 3));
    EXPECT_EQ(anybodys, theirs);
    EXPECT_EQ(work->sourceRank(), theirs[0]);
  });
}

TEST(GroupTest, AnAsynchronousCallIsWaitedForLater) {
  inWorld(2, [](Group world) {
    std::vector<float> data(100'000, 1);
    const WorkPtr work = world.allReduce(data, {.async = true});
    EXPECT_TRUE(work->wait());
    EXPECT_EQ(data.back(), 2.0F);
  });
}

TEST(GroupTest, SplitsByColorAndKeepsTheOrderOfRanks) {
  inWorld(5, [](Group world) {
    std::optional<Group> half = world.split(world.rank() % 2);
    ASSERT_TRUE(half);
    EXPECT_EQ(half->size(), world.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ(half->rank(), world.rank() / 2);

    std::vector<int> ranks = {world.rank()};
    half->allReduce(ranks);
    EXPECT_EQ(ranks[0], world.rank() % 2 == 0 ? 0 + 2 + 4 : 1 + 3);

    const std::optional<Group> few =
        world.split(world.rank() < 2 ? std::optional(7) : std::nullopt);
    EXPECT_EQ(few.has_value(), world.rank() < 2);
    std::optional<Group> again = half->split(0);
    ASSERT_TRUE(again);
    again->barrier();
    world.barrier();
  });
}

TEST(GroupTest, SaysWhatInitNeeds) {
  EXPECT_THAT(textOf<UsageError>([] { init({.store = std::make_shared<HashStore>()}); }),
              HasSubstr("rank and size"));
  EXPECT_THAT(
      textOf<UsageError>([] {
        init({.store = std::make_shared<HashStore>(), .rank = 0, .size = 1, .backend = "glue"});
      }),
      HasSubstr("glue"));
}

TEST(GroupTest, ErrorsAreThrownByTheCallItself) {
  inWorld(2, [](Group world) {
    std::vector<float> data(world.rank() == 0 ? 10 : 11);
    EXPECT_THAT(textOf<DistBackendError>([&] {
                  world.allReduce(data);
                  world.barrier();
                }),
                HasSubstr("[MISMATCH]"));
  });
}

/// Who is to be told of whom.
class WrongArgumentsTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, WrongArgumentsTest, ::testing::Values(0, 2));

TEST_P(WrongArgumentsTest, OfOneRankEndTheWaitOfTheOthers) {
  const auto store = std::make_shared<HashStore>();
  const int wrong = GetParam();
  const auto thrown = test::onThreads(3, [&](int rank) {
    static_cast<void>(init({.store = store,
                            .rank = rank,
                            .size = 3,
                            .backend = rank == wrong ? "unisone" : "unisono",
                            .timeout = std::chrono::seconds(60)}));
  });

  for (int rank = 0; rank < 3; ++rank) {
    const std::string text = test::textOfThrown(thrown[static_cast<std::size_t>(rank)]);
    EXPECT_THAT(text, HasSubstr("there is no backend 'unisone'"));
    EXPECT_EQ(text.find(str("culprits=[", wrong, "]")) != std::string::npos, rank != wrong) << text;
  }
}

}  // namespace
}  // namespace unisono
