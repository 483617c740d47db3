// Formations that cannot succeed: every rank is told why, and long before its time is over.
#include "transport/shm/formation.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"

#include "base/host.hpp"
#include "base/wait.hpp"
#include "net/net_support.hpp"
#include "store/expect.hpp"
#include "support/forked.hpp"
#include "support/support.hpp"
#include "support/thread_world.hpp"
#include "transport/shm/registered_memory.hpp"

namespace unisono::shm {
namespace {

using test::onThreads;
using test::textOf;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

FormOptions options(const StorePtr& store, int rank, int size) {
  return {.store = store, .rank = rank, .size = size, .group = "g", .settings = "", .timeout = 60s};
}

/// A process that may be stopped; killed at the end.
class Child : public test::Forked {
 public:
  using Forked::Forked;
  void stop() const {
    ::kill(pid(), SIGSTOP);
    ::waitpid(pid(), nullptr, WUNTRACED);
  }
};

RootRecord refusal(const std::string& why) {
  return {.version = kVersion,
          .size = 2,
          .host = hostId(),
          .process = encodeMark(thisProcess()),
          .socket = "",
          .cookie = "",
          .reason = Reason::RESOURCE,
          .refusal = why};
}

/// Counts who waits in it.
class WatchedStore : public Store {
 public:
  using Store::check;
  using Store::compareSet;
  using Store::set;
  using Store::wait;
  void set(std::string_view key, BytesView value) override { inner_.set(key, value); }
  Bytes get(std::string_view key) override { return inner_.get(key); }
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override {
    return inner_.compareSet(key, expected, desired);
  }
  std::int64_t add(std::string_view key, std::int64_t by) override { return inner_.add(key, by); }
  bool deleteKey(std::string_view key) override { return inner_.deleteKey(key); }
  bool check(std::span<const std::string> keys) override { return inner_.check(keys); }
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    ++waits;
    inner_.wait(keys, timeout);
  }
  std::int64_t numKeys() override { return inner_.numKeys(); }
  std::shared_ptr<Store> clone() override { return nullptr; }

  std::atomic<int> waits{0};

 private:
  HashStore inner_;
};

/// Its server goes away before anything is deleted.
class NoDelete final : public WatchedStore {
 public:
  bool deleteKey(std::string_view /*key*/) override {
    throw DistStoreError({.reason = Reason::STORE_LOST, .what = "the store is gone"});
  }
};

TEST(FormationTest, AStoreThatFailsAtTheEndEndsItForAll) {
  const auto store = std::make_shared<NoDelete>();

  for (const auto& thrown :
       onThreads(3, [&](int rank) { Segment::form(options(store, rank, 3)); })) {
    EXPECT_THAT(textOfThrown(thrown), AllOf(HasSubstr("[STORE_LOST]"), HasSubstr("is gone")));
  }
}

thread_local bool interrupted = false;

TEST(FormationTest, AnInterruptOfOneEndsItForAll) {
  struct Interrupt {};
  setInterruptHook([] {
    if (interrupted) {
      throw Interrupt();
    }
  });
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(2, [&](int rank) {  // and rank 2 does not come
    if (rank == 1) {
      store->wait({"unisono/root"}, 60s);
    }
    interrupted = rank == 1;
    Segment::form(options(store, rank, 3));
  });
  setInterruptHook(nullptr);

  EXPECT_THAT(textOfThrown(thrown[0]),
              AllOf(HasSubstr("rank 1 has left while group 'g' was formed"), HasSubstr("[ABORTED]"),
                    HasSubstr("culprits=[1]")));
  EXPECT_THROW(std::rethrow_exception(thrown[1]), Interrupt);
}

thread_local bool isRoot = false;

/// Rank 0 does not come back from it before it is let go.
class StuckStore final : public WatchedStore {
 public:
  using Store::wait;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    if (isRoot) {
      reached.set_value();
      isRoot = false;
      letGo.get_future().wait();
    }
    WatchedStore::wait(keys, timeout);
  }
  std::promise<void> reached;
  std::promise<void> letGo;
};

TEST(FormationTest, WhenAllHaveComeItIsRankZeroThatIsLate) {
  const auto store = std::make_shared<StuckStore>();
  const auto thrown = onThreads(2, [&](int rank) {
    isRoot = rank == 0;
    FormOptions mine = options(store, rank, 2);
    if (rank == 1) {
      store->reached.get_future().wait();
      mine.timeout = 1s;
    }
    try {
      Segment::form(mine);
    } catch (...) {
      if (rank == 1) {
        store->letGo.set_value();
      }
      throw;
    }
  });
  EXPECT_THAT(textOfThrown(thrown[1]),
              AllOf(HasSubstr("2 of 2 ranks have come, rank 0 has not opened it"),
                    HasSubstr("[TIMEOUT]"), HasSubstr("culprits=[0]")));
}

/// Every call of it is interrupted again while `interrupted`.
class InterruptedStore final : public WatchedStore {
 public:
  using Store::set;
  void set(std::string_view key, BytesView value) override {
    pauseFor(1s, {.deadline = Deadline::after(60s), .subject = {}});
    WatchedStore::set(key, value);
  }
};

TEST(FormationTest, AnInterruptBeforeRankZeroComesIsTheErrorOfItsRank) {
  struct Interrupt {};
  setInterruptHook([] {
    if (interrupted) {
      throw Interrupt();
    }
  });
  for (const StorePtr& store :
       {StorePtr(std::make_shared<HashStore>()), StorePtr(std::make_shared<InterruptedStore>())}) {
    const auto thrown = onThreads(1, [&](int) {
      interrupted = true;
      Segment::form(options(store, 1, 2));
    });
    EXPECT_THROW(std::rethrow_exception(thrown[0]), Interrupt);
  }
  setInterruptHook(nullptr);
}

TEST(FormationTest, ARankOnAnotherHostEndsItForAll) {
  const test::TempDir folder;
  const auto meet = [&](int rank) {
    Segment::form(options(std::make_shared<FileStore>(folder.file("store")), rank, 4));
  };
  const Child foreign([&] {
    ::setenv("UNISONO_HOST_ID", "elsewhere", 1);
    meet(2);
  });

  for (const auto& thrown : onThreads(2, meet)) {  // rank 3 is still to come
    EXPECT_THAT(textOfThrown(thrown),
                AllOf(HasSubstr("[PEER_UNREACHABLE]"), HasSubstr("spans several hosts"),
                      HasSubstr("elsewhere"), HasSubstr("culprits=[2]")));
  }
}

TEST(FormationTest, WhoSeesRankZeroDieTellsThoseOnOtherHosts) {
  const test::TempDir folder;
  const auto open = [&] { return std::make_shared<FileStore>(folder.file("store")); };
  const Child root([&] { Segment::form(options(open(), 0, 3)); });  // rank 2 does not come
  const StorePtr store = open();
  store->wait({"unisono/root"}, 60s);
  const auto record = RootRecord::decode(store->getString("unisono/root"));
  ASSERT_TRUE(record);
  std::thread killer([&] {
    const FormOptions mine = options(store, 2, 3);
    EXPECT_EQ(Meeting(mine).whatWasSaidFor(record->cookie), std::nullopt);
    root.kill(SIGKILL);
  });
  EXPECT_THAT(textOf<DistBackendError>([&] { Segment::form(options(store, 1, 3)); }),
              AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[0]")));
  killer.join();

  const FormOptions elsewhere = options(store, 2, 3);
  Meeting meeting(elsewhere);
  const auto said = meeting.whatWasSaidFor(record->cookie);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->reason, Reason::PEER_DEAD);
  EXPECT_THAT(said->culprits, ::testing::ElementsAre(0));
  EXPECT_EQ(meeting.whatWasSaidFor(std::string(32, '0')), std::nullopt) << "of another group";
}

TEST(FormationTest, WhatRankZeroCannotHaveIsToldToTheOthers) {
  const auto store = std::make_shared<HashStore>();
  store->set("unisono/root", refusal("no shared memory").encode());

  EXPECT_THAT(textOf<DistBackendError>([&] { Segment::form(options(store, 1, 2)); }),
              AllOf(HasSubstr("[RESOURCE]"), HasSubstr("culprits=[0]"),
                    HasSubstr("rank 0 cannot form group 'g': no shared memory")));
}

TEST(FormationTest, ARefusalOfAnEarlierAttemptDoesNotStandInTheWay) {
  const auto store = std::make_shared<HashStore>();
  store->set("unisono/root", refusal("no shared memory").encode());

  EXPECT_THAT(onThreads(2, [&](int rank) { Segment::form(options(store, rank, 2)); }),
              Each(nullptr));
}

/// What stayAway() leaves behind when `rank` is refused for `why`.
void refuse(const StorePtr& store, int rank, int size, const std::string& why) {
  try {
    throw UsageError({.reason = Reason::USAGE, .what = why});
  } catch (const UsageError&) {
    stayAway(options(store, rank, size));
  }
}

TEST(FormationTest, ARefusalThatComesWhileARankWaitsIsNoneOfAnEarlierAttempt) {
  const auto store = std::make_shared<WatchedStore>();
  const auto thrown = onThreads(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_TRUE(test::eventually([&] { return store->waits > 0; }));
      refuse(store, 0, 2, "it has no such setting");
    } else {
      Segment::form(options(store, 1, 2));
    }
  });

  EXPECT_THAT(textOfThrown(thrown[1]),
              AllOf(HasSubstr("[CONFIG]"), HasSubstr("culprits=[0]"),
                    HasSubstr("rank 0 cannot form group 'g': it has no such setting")));
  EXPECT_EQ(store->waits, 1) << "it has not looked for a successor";
}

class RefusedRankTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(BeforeOrAfterRankZero, RefusedRankTest, ::testing::Bool());

TEST_P(RefusedRankTest, IsToldToTheOthers) {
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(3, [&](int rank) {
    if (rank == 2) {
      if (GetParam()) {
        store->wait({"unisono/root"}, 60s);
      }
      refuse(store, 2, 3, "it has no such setting");
    } else {
      if (!GetParam()) {
        store->wait({"unisono/decline"}, 60s);
      }
      Segment::form(options(store, rank, 3));
    }
  });

  for (const int rank : {0, 1}) {
    EXPECT_THAT(textOfThrown(thrown[static_cast<std::size_t>(rank)]),
                AllOf(HasSubstr("[CONFIG]"), HasSubstr("culprits=[2]"),
                      HasSubstr("rank 2 cannot be in group 'g': it has no such setting")));
  }
  EXPECT_FALSE(store->check({"unisono/decline"}));
}

TEST(FormationTest, ARankThatIsNoneOfTheGroupEndsItForAll) {
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(2, [&](int rank) {
    if (rank == 1) {
      store->wait({"unisono/root"}, 60s);
      refuse(store, 2, 2, "rank 2 is none of a group of 2");
    } else {
      Segment::form(options(store, rank, 2));
    }
  });

  EXPECT_THAT(textOfThrown(thrown[0]),
              AllOf(HasSubstr("[CONFIG]"), HasSubstr("rank 2 is none of a group of 2")));
}

TEST(FormationTest, WhoHasDeclinedMayComeAfterAll) {
  const auto store = std::make_shared<HashStore>();
  refuse(store, 1, 2, "it has no such setting");

  EXPECT_THAT(onThreads(2, [&](int rank) { Segment::form(options(store, rank, 2)); }),
              Each(nullptr));
  EXPECT_FALSE(store->check({"unisono/decline"}));
}

/// Rank 0 is another process, which is stopped once `isReady`.
template <typename Life, typename IsReady>
std::string toldWhileRootIsStopped(const Life& life, const IsReady& isReady,
                                   const std::function<void(Segment&)>& ask) {
  const test::TempDir folder;
  const auto meet = [&](int rank) {
    return Segment::form(options(std::make_shared<FileStore>(folder.file("store")), rank, 2));
  };
  const Child root([&] {
    const std::unique_ptr<Segment> segment = meet(0);
    life(*segment);
  });
  const std::unique_ptr<Segment> mine = meet(1);
  EXPECT_TRUE(test::eventually([&] { return isReady(*mine); }));
  root.stop();
  auto asking = std::async(std::launch::async, [&] { ask(*mine); });
  static_cast<void>(mine->fail({.culprits = {1}, .text = "aborted by a test"}));
  EXPECT_EQ(asking.wait_for(30s), std::future_status::ready)
      << "it waits for a process that is stopped, though the group has failed";
  return mine->cause().value_or(AbortCause{}).text;
}

void stayAlive(Segment& /*segment*/) {
  pauseFor(60s, {.deadline = Deadline::never(), .subject = {}});
}

/// Descriptors of shared memory that this process has open.
std::ptrdiff_t memoryDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::count_if(begin(all), end(all), [](const auto& entry) {
    std::error_code closed;
    return std::filesystem::read_symlink(entry.path(), closed)
        .string()
        .starts_with("/memfd:unisono");
  });
}

TEST(FormationTest, WhoJoinsKeepsNoDescriptors) {
  const test::TempDir folder;
  const auto meet = [&](int rank) {
    return Segment::form(options(std::make_shared<FileStore>(folder.file("store")), rank, 2));
  };
  const Child other([&] {
    const std::unique_ptr<Segment> segment = meet(0);
    stayAlive(*segment);
  });
  const std::unique_ptr<Segment> mine = meet(1);
  ASSERT_FALSE(mine->extend(kRingExtension, Deadline::after(60s)).empty());

  EXPECT_EQ(memoryDescriptors(), 0) << "only rank 0 hands out what it has made";
}

TEST(StoppedRootTest, WhoAsksForMoreMemoryLearnsThatTheGroupHasFailed) {
  EXPECT_EQ(toldWhileRootIsStopped(
                stayAlive, [](Segment&) { return true; },
                [](Segment& segment) {
                  EXPECT_TRUE(segment.extend(kRingExtension, Deadline::after(60s)).empty());
                }),
            "aborted by a test");
}

TEST(StoppedRootTest, WhoAsksForRegisteredMemoryLearnsThatTheGroupHasFailed) {
  const auto registers = [](Segment& segment) {
    RegisteredMemory registered(segment);
    const auto tensor = registered.allocate(100);
    stayAlive(segment);
  };
  const auto isThere = [](Segment& segment) {
    return segment.block(0).blocks.live[1].load(std::memory_order_acquire) == 1;
  };
  toldWhileRootIsStopped(registers, isThere, [](Segment& segment) {
    RegisteredMemory registered(segment);
    EXPECT_THROW(registered.reach(0, {.block = 1, .offset = 0}, 100, Deadline::after(60s)),
                 DistError);
  });
}

}  // namespace
}  // namespace unisono::shm
