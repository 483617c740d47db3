// Groups that are made out of others.
#include <gmock/gmock.h>

#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::errorOf;
using test::inWorld;
using test::textOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Lists = std::vector<std::vector<int>>;

/// The world's ranks of the members of `group`, by their rank in it.
std::vector<int> membersOf(Group& group, const Group& world) {
  const std::vector<int> mine = {world.rank()};
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  group.allGather(mine, all);
  return all;
}

TEST(NewGroupTest, IsOfTheRanksInTheListOnly) {
  inWorld(4, [](Group world) {
    std::optional<Group> group = world.newGroup({0, 2, 3});

    ASSERT_EQ(group.has_value(), world.rank() != 1);
    if (group) {
      EXPECT_EQ(group->rank(), world.rank() == 0 ? 0 : world.rank() - 1);
      EXPECT_THAT(membersOf(*group, world), ElementsAre(0, 2, 3));
    }
    world.barrier();
  });
}

TEST(NewGroupTest, SortsTheRanksUnlessToldNotTo) {
  inWorld(3, [](Group world) {
    std::optional<Group> sorted = world.newGroup({2, 0, 1});
    std::optional<Group> given = world.newGroup({2, 0, 1}, {.sortRanks = false});

    EXPECT_THAT(membersOf(*sorted, world), ElementsAre(0, 1, 2));
    EXPECT_THAT(membersOf(*given, world), ElementsAre(2, 0, 1));
  });
}

TEST(NewGroupTest, RanksMayWriteAListThatIsSortedInAnyOrder) {
  inWorld(2, [](Group world) {
    EXPECT_TRUE(world.newGroup(world.rank() == 0 ? std::vector{0, 1} : std::vector{1, 0}));
  });
}

TEST(NewGroupTest, NamesAreCountedAlikeOnAllRanks) {
  inWorld(3, [](Group world) {
    world.newGroup({world.size() - 1});  // the others count it too
    std::optional<Group> second = world.newGroup({0, 1, 2});
    std::optional<Group> third = world.splitGroup({{2}, {0, 1}});
    std::optional<Group> inner = second->newGroup({0, 1, 2});

    EXPECT_EQ(second->name(), "world/2");
    EXPECT_EQ(third->name(), world.rank() == 2 ? "world/3/0" : "world/3/1");
    EXPECT_EQ(inner->name(), "world/2/1");
  });
}

TEST(NewGroupTest, TheSameListTwiceIsTwoGroups) {
  inWorld(2, [](Group world) {
    std::optional<Group> first = world.newGroup({0, 1});
    std::optional<Group> second = world.newGroup({0, 1});
    std::vector<int> one = {1};
    std::vector<int> two = {10};
    // In another order on each rank: what is of different groups does not meet.
    const WorkPtr early = (world.rank() == 0 ? first : second)
                              ->allReduce(world.rank() == 0 ? one : two, {.async = true});
    (world.rank() == 0 ? second : first)->allReduce(world.rank() == 0 ? two : one);
    early->wait();

    EXPECT_EQ(one[0], 2);
    EXPECT_EQ(two[0], 20);
  });
}

TEST(NewGroupTest, HasAStoreOfItsOwn) {
  inWorld(2, [](Group world) {
    std::optional<Group> first = world.newGroup({0, 1});
    std::optional<Group> second = world.newGroup({0, 1});

    first->processGroup().store()->set("key", "first");
    EXPECT_FALSE(second->processGroup().store()->check(std::vector<std::string>{"key"}));
    EXPECT_FALSE(world.processGroup().store()->check(std::vector<std::string>{"key"}));
    first->barrier();
    second->barrier();
  });
}

TEST(NewGroupTest, TakesWhatIsNotSaidFromItsParent) {
  inWorld(2, [](Group world) {
    world.processGroup().setTimeout(7s);
    std::optional<Group> plain = world.newGroup({0, 1});
    std::optional<Group> other =
        world.newGroup({0, 1}, {.timeout = 3s, .backend = "fake", .desc = "dry run"});

    EXPECT_EQ(plain->processGroup().defaultBackend()->timeout(), 7s);
    EXPECT_EQ(plain->processGroup().defaultBackend()->name(), "unisono");
    EXPECT_EQ(other->processGroup().defaultBackend()->timeout(), 3s);
    EXPECT_EQ(other->processGroup().defaultBackend()->name(), "fake");
    EXPECT_EQ(other->processGroup().groupDesc(), "dry run");
  });
}

TEST(NewGroupTest, ABadListIsRefusedOnAllRanksAndTheParentStaysUsable) {
  inWorld(3, [](Group world) {
    EXPECT_THAT(textOf<UsageError>([&] { world.newGroup({}); }),
                AllOf(HasSubstr("newGroup refused"), HasSubstr("cannot be empty")));
    EXPECT_THAT(textOf<UsageError>([&] {
                  world.newGroup({0, 3});
                }),
                AllOf(HasSubstr("rank 3"), HasSubstr("group of 3"), HasSubstr("from 0 to 2")));
    EXPECT_THAT(textOf<UsageError>([&] { world.newGroup({-1, 0}); }), HasSubstr("rank -1"));
    EXPECT_THAT(textOf<UsageError>([&] {
                  world.newGroup({0, 1, 1});
                }),
                AllOf(HasSubstr("should not have duplicates"), HasSubstr("rank 1")));
    EXPECT_THAT(textOf<UsageError>([&] { world.newGroup({0}, {.backend = "cpu:"}); }),
                HasSubstr("[CONFIG]"));

    EXPECT_EQ(world.newGroup({0, 1, 2})->name(), "world/1") << "what was refused is not counted";
  });
}

TEST(NewGroupTest, EveryRankLearnsWhoGaveAnotherList) {
  inWorld(4, [](Group world) {
    const std::vector<int> ranks = world.rank() == 2 ? std::vector{0, 2} : std::vector{0, 1, 2};
    const std::optional<ErrorFacts> error =
        errorOf<DistBackendError>([&] { world.newGroup(ranks); });

    ASSERT_TRUE(error);
    EXPECT_EQ(error->reason, Reason::MISMATCH);
    EXPECT_THAT(error->culprits, ElementsAre(2));
    EXPECT_THAT(error->what,
                AllOf(HasSubstr("rank 2 made another call"),
                      HasSubstr(world.rank() == 2 ? "newGroup([0, 2])" : "newGroup([0, 1, 2])")));
    world.barrier();
  });
}

TEST(NewGroupTest, EveryRankLearnsWhoMadeAnotherCall) {
  inWorld(3, [](Group world) {
    EXPECT_THAT(textOf<DistBackendError>([&] {
                  if (world.rank() == 0) {
                    world.split(0);
                  } else {
                    world.newGroup({0, 1, 2});
                  }
                }),
                AllOf(HasSubstr("[MISMATCH]"), HasSubstr("culprits=[0]")));
    EXPECT_THAT(textOf<DistBackendError>([&] {
                  world.newGroup({0}, {.backend = world.rank() == 1 ? "fake" : "unisono"});
                }),
                HasSubstr("culprits=[1]"));
  });
}

TEST(SplitTest, AGroupIsCalledByTheNameItIsGiven) {
  inWorld(2, [](Group world) {
    const std::string color = std::to_string(world.rank());
    EXPECT_EQ(world.split(world.rank(), "rows")->name(), "world/rows/" + color);
    Group again = world.split(0, "rows").value();  // no name has to be new
    EXPECT_EQ(again.name(), "world/rows/0");
    again.barrier();
    EXPECT_THAT(textOf<DistBackendError>([&] { world.split(0, world.rank() == 0 ? "a" : "b"); }),
                AllOf(HasSubstr("[MISMATCH]"), HasSubstr("this rank called split(")));
  });
}

TEST(NewGroupTest, AListTooLongToReadIsShortened) {
  inWorld(2, [](Group world) {
    std::vector<int> ranks(1000, world.rank());
    EXPECT_THAT(textOf<DistBackendError>([&] { world.newGroup(ranks); }),
                AllOf(HasSubstr("984 more"), Not(HasSubstr(std::string(500, '0')))));
  });
}

TEST(NewGroupTest, ErrorsNameRanksAsTheWorldDoes) {
  inWorld(4, [](Group world) {
    std::optional<Group> odd = world.newGroup({1, 3});
    if (!odd) {
      return;
    }
    EXPECT_THAT(textOf<DistBackendError>([&] { odd->newGroup({world.rank() == 3 ? 1 : 0}); }),
                HasSubstr("culprits=[3]"));
  });
}

TEST(SplitGroupTest, GivesEachRankTheGroupItIsIn) {
  inWorld(5, [](Group world) {
    std::optional<Group> part = world.splitGroup({{4, 0}, {1, 3}});

    ASSERT_EQ(part.has_value(), world.rank() != 2);
    if (part) {
      EXPECT_THAT(membersOf(*part, world),
                  world.rank() % 4 == 0 ? ElementsAre(0, 4) : ElementsAre(1, 3));
    }
    world.barrier();
  });
}

TEST(SplitGroupTest, SplitsWhatWasSplit) {
  inWorld(4, [](Group world) {
    std::optional<Group> upper = world.splitGroup({{0}, {1, 2, 3}});
    std::optional<Group> last =
        upper->splitGroup({upper->size() == 1 ? Lists::value_type{0} : Lists::value_type{1, 2}});
    ASSERT_EQ(last.has_value(), world.rank() != 1);
    if (world.rank() > 1) {
      EXPECT_THAT(membersOf(*last, world), ElementsAre(2, 3));
    }
  });
}

TEST(SplitGroupTest, RefusesListsThatShareARank) {
  inWorld(3, [](Group world) {
    EXPECT_THAT(textOf<UsageError>([&] {
                  world.splitGroup({{0, 1}, {1, 2}});
                }),
                AllOf(HasSubstr("splitGroup refused"), HasSubstr("rank 1 is named twice")));
    EXPECT_THAT(textOf<UsageError>([&] { world.splitGroup({}); }), HasSubstr("cannot be empty"));
    EXPECT_THAT(textOf<UsageError>([&] {
                  world.splitGroup({{0}, {}});
                }),
                HasSubstr("cannot be empty"));
    world.barrier();
  });
}

}  // namespace
}  // namespace unisono
