// The end of groups.
#include <future>
#include <gmock/gmock.h>
#include <latch>
#include <unistd.h>

#include "unisono/backend/backend_table.hpp"
#include "unisono/backend/fake_backend.hpp"
#include "unisono/group/group_registry.hpp"
#include "unisono/store/file_store.hpp"

#include "group/backend_kinds.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::inWorld;
using test::reasonOf;
using test::textOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Notes the names of groups in the order in which they are shut down; "world/2" then fails.
class NotingBackend final : public Backend {
 public:
  explicit NotingBackend(const BackendParams& params) : Backend(params, test::kAnything) {}
  std::string_view name() const noexcept override { return "noting"; }
  WorkPtr start(CollectiveArgs&&) override { return finishedWork(); }
  void shutdown() override {
    noted.push_back(options().groupName);
    if (options().groupName == "world/2") {
      throw std::runtime_error("cannot even shut down");
    }
  }
  static inline std::vector<std::string> noted;  // by tests with one rank only
};

void registerNotingBackend() {
  static const bool once = [] {
    registerBackend("noting", {DeviceType::CPU}, [](const BackendParams& params) {
      return std::make_shared<NotingBackend>(params);
    });
    return true;
  }();
  static_cast<void>(once);
  NotingBackend::noted.clear();
}

/// A group of one that needs nobody.
Group fakeGroup() {
  auto group = std::make_shared<ProcessGroup>(nullptr, 0, 1, "alone");
  group->setBackend(DeviceType::CPU, std::make_shared<FakeBackend>(BackendParams{}));
  return Group(group);
}

TEST(DestroyTest, AWorldTakesAlongAllThatWasMadeOutOfItTheLastMadeFirst) {
  registerNotingBackend();
  inWorld(1, [](Group world) {
    const auto first = world.newGroup({0}, {.backend = "noting"});
    auto second = world.newGroup({0});
    const auto inner = second->newGroup({0}, {.backend = "noting"});
    const auto last = world.splitGroup({{0}}, {.backend = "noting"});
    world.newGroup({0}, {.backend = "noting"});  // gone already

    destroyProcessGroup(world);

    EXPECT_THAT(NotingBackend::noted, ElementsAre("world/3", "world/2/1", "world/1"));
    EXPECT_THAT(textOf<UsageError>([&] { second->barrier(); }), HasSubstr("[SHUTDOWN]"));
  });
}

TEST(DestroyTest, WhatOneGroupThrowsDoesNotKeepTheOthersOpen) {
  registerNotingBackend();
  inWorld(1, [](Group world) {
    const auto first = world.newGroup({0}, {.backend = "noting"});
    const auto second = world.newGroup({0}, {.backend = "noting"});
    const auto third = world.newGroup({0}, {.backend = "noting"});

    EXPECT_THROW(destroyProcessGroup(world), std::runtime_error);

    EXPECT_THAT(NotingBackend::noted, ElementsAre("world/3", "world/2", "world/1"));
    EXPECT_THROW(destroyProcessGroup(world), UsageError);
  });
}

TEST(DestroyTest, AGroupThatIsNoWorldGoesAlone) {
  inWorld(3, [](Group world) {
    std::optional<Group> first = world.newGroup({0, 1, 2});
    std::optional<Group> inner = first->newGroup({0, 1, 2});
    std::optional<Group> second = world.newGroup({0, 1, 2});

    destroyProcessGroup(*first);

    std::vector<int> data = {1};
    inner->allReduce(data);
    second->allReduce(data);
    world.allReduce(data);
    EXPECT_THAT(data, Each(27));
    destroyProcessGroup(world);  // which leaves out what has been destroyed
    EXPECT_THROW(inner->barrier(), UsageError);
  });
}

TEST(DestroyTest, LaterUseSaysThatTheGroupWasDestroyed) {
  const auto refused = AllOf(HasSubstr("has been destroyed"), HasSubstr("[SHUTDOWN]"),
                             HasSubstr("group=world"), HasSubstr("make a new group"));
  inWorld(2, [&](Group world) {
    std::vector<int> data = {1};
    world.allReduce(data);
    destroyProcessGroup(world);

    EXPECT_THAT(textOf<UsageError>([&] { world.allReduce(data); }), refused);
    EXPECT_THAT(textOf<UsageError>([&] { world.allReduce(data, {.async = true}); }), refused);
    EXPECT_THAT(textOf<UsageError>([&] { world.newGroup({0, 1}); }), refused);
    EXPECT_THAT(textOf<UsageError>([&] { world.processGroup().monitoredBarrier(); }), refused);
    EXPECT_THAT(textOf<UsageError>([&] { world.processGroup().startCoalescing(); }), refused);
    EXPECT_FALSE(world.processGroup().hasHooks());
    EXPECT_EQ(data[0], 2) << "nothing was sent";
  });
}

TEST(DestroyTest, TwiceIsRefused) {
  const Group group = fakeGroup();
  destroyProcessGroup(group);

  EXPECT_THAT(textOf<UsageError>([&] { destroyProcessGroup(group); }),
              AllOf(HasSubstr("destroyed already"), HasSubstr("group=alone")));
  EXPECT_NO_THROW(destroyProcessGroup(Group(std::make_shared<ProcessGroup>(nullptr, 0, 1))))
      << "a group without backends has nothing to end";
}

TEST(DestroyTest, AForkedChildCannotDestroyTheGroupOfItsParent) {
  const Group group = fakeGroup();
  EXPECT_EQ(test::runInChild([&] {
              return reasonOf<UsageError>([&] { destroyProcessGroup(group); }) == Reason::FORKED;
            }),
            0);
  EXPECT_NO_THROW(destroyProcessGroup(group));
}

TEST(DestroyTest, AnOpenBatchFails) {
  const Group group = fakeGroup();
  CoalescingScope scope = group.processGroup().startCoalescing();
  std::vector<int> data = {1};
  const WorkPtr work = group.processGroup().allreduce(Tensor(data));

  destroyProcessGroup(group);

  EXPECT_EQ(reasonOf<UsageError>([&] { scope.end(); }), Reason::SHUTDOWN);
  EXPECT_EQ(reasonOf<UsageError>([&] { work->wait(); }), Reason::SHUTDOWN);
}

TEST(DestroyTest, AllNamesOfTheGroupAreFreeAgain) {
  const Group group = fakeGroup();
  const Group other = fakeGroup();
  registerGroup("one name", group.sharedProcessGroup());
  registerGroup("another name", group.sharedProcessGroup());
  registerGroup("kept", other.sharedProcessGroup());

  destroyProcessGroup(group);

  EXPECT_THAT(groupNames(), AllOf(Contains("kept"), Not(Contains("one name"))));
  EXPECT_THROW(resolveGroup("another name"), UsageError);
  EXPECT_NO_THROW(registerGroup("one name", other.sharedProcessGroup()));
  destroyProcessGroup(other);
}

TEST(DestroyTest, WaitsForWhatIsUnderWay) {
  inWorld(3, [](Group world) {
    std::optional<Group> half = world.newGroup({0, 1, 2});
    std::vector<std::vector<int>> data(20, std::vector<int>(1000, 1));
    std::vector<WorkPtr> works;
    for (std::vector<int>& each : data) {
      works.push_back((works.size() % 2 == 0 ? world : *half).allReduce(each, {.async = true}));
    }

    destroyProcessGroup(world);

    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT_TRUE(works[i]->isCompleted());
      EXPECT_TRUE(works[i]->wait());
      ASSERT_THAT(data[i], Each(3));
    }
  });
}

TEST(DestroyTest, FailsWhatDoesNotEndWithinTheTimeoutOfTheGroup) {
  std::latch over(1);
  inWorld(2, [&](Group world) {
    std::vector<int> data = {1};
    if (world.rank() == 1) {
      over.wait();  // and never makes the calls that rank 0 makes
      EXPECT_THAT(textOf<DistTimeoutError>([&] { world.allReduce(data); }),
                  HasSubstr("rank 0 shut the group down"));
      return;
    }
    const WorkPtr running = world.allReduce(data, {.async = true, .timeout = 10min});
    const WorkPtr queued = world.allReduce(data, {.async = true, .timeout = 10min});
    world.processGroup().setTimeout(50ms);

    EXPECT_THAT(textOf<DistTimeoutError>([&] { destroyProcessGroup(world); }),
                AllOf(HasSubstr("still under way 50ms later"), HasSubstr("[TIMEOUT]")));

    EXPECT_TRUE(running->isCompleted());
    EXPECT_THROW(running->wait(), DistTimeoutError);
    EXPECT_THROW(queued->wait(), DistTimeoutError);
    over.count_down();
  });
}

TEST(DestroyTest, PeersThatGoOnLearnThatTheRankHasLeft) {
  std::latch over(1);
  inWorld(2, [&](Group world) {
    world.barrier();
    if (world.rank() == 1) {
      destroyProcessGroup(world);
      over.wait();  // the handle lives
      return;
    }
    EXPECT_THAT(textOf<DistBackendError>([&] { world.barrier(); }),
                AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[1]")));
    over.count_down();
  });
}

TEST(DestroyTest, OperationsOfOtherThreadsEndWellOrSayWhy) {
  inWorld(1, [](Group world) {
    std::latch running(2);
    const auto operate = [&](bool async) {
      std::vector<int> data = {1};
      world.allReduce(data, {.async = async})->wait();
      running.count_down();
      for (;;) {
        try {
          world.allReduce(data, {.async = async})->wait();
        } catch (const DistError& error) {
          return error.reason();
        }
      }
    };
    auto now = std::async(std::launch::async, operate, false);
    auto later = std::async(std::launch::async, operate, true);
    running.wait();

    destroyProcessGroup(world);

    EXPECT_EQ(now.get(), Reason::SHUTDOWN);
    EXPECT_EQ(later.get(), Reason::SHUTDOWN);
  });
}

TEST(DestroyTest, DoesNotWaitForAPeerThatDied) {
  const test::TempDir folder;
  const auto join = [&](int rank) {
    return init(
        {.store = std::make_shared<FileStore>(folder.file("store"), 2), .rank = rank, .size = 2});
  };
  test::Child peer([&](const test::Child::Tell& tell) {
    Group world = join(1);
    world.barrier();
    tell();
    for (;;) {
      ::pause();
    }
  });
  Group world = join(0);
  world.barrier();
  ASSERT_TRUE(peer.awaitWord());
  std::vector<int> data = {1};
  const WorkPtr work = world.allReduce(data, {.async = true});
  peer.kill();

  EXPECT_NO_THROW(destroyProcessGroup(world));

  EXPECT_EQ(reasonOf<DistBackendError>([&] { work->wait(); }), Reason::PEER_DEAD);
}

}  // namespace
}  // namespace unisono
