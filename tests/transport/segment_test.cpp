#include "transport/shm/segment.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"

#include "base/bytes.hpp"
#include "base/host.hpp"
#include "base/process.hpp"
#include "net/net_support.hpp"
#include "store/expect.hpp"
#include "support/memory.hpp"
#include "support/support.hpp"
#include "support/thread_world.hpp"
#include "transport/root_record.hpp"

namespace unisono::shm {
namespace {

using test::onThreads;
using test::reasonOf;
using test::textOf;
using test::textOfThrown;
using test::ThreadWorld;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

FormOptions options(const StorePtr& store, int rank, int size, Milliseconds timeout = 20s) {
  return {
      .store = store, .rank = rank, .size = size, .group = "g", .settings = "", .timeout = timeout};
}

bool hasThreadNamed(pid_t pid, const std::string& name) {
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    std::string line;
    std::getline(std::ifstream(thread.path() / "comm") >> std::ws, line);
    if (line == name) {
      return true;
    }
  }
  return false;
}

TEST(SegmentTest, AllRanksLookAtTheSameMemory) {
  ThreadWorld world(5);
  for (int rank = 0; rank < 5; ++rank) {
    world.segment(rank).smallSlots(rank).bytes[0][0] = static_cast<std::byte>(rank + 1);
  }

  for (int rank = 0; rank < 5; ++rank) {
    for (int peer = 0; peer < 5; ++peer) {
      EXPECT_EQ(world.segment(rank).smallSlots(peer).bytes[0][0], static_cast<std::byte>(peer + 1));
    }
  }
}

TEST(SegmentTest, OneRankIsAGroupToo) {
  ThreadWorld world(1);
  EXPECT_EQ(world.segment(0).size(), 1);
}

TEST(SegmentTest, RanksThatHaveOneCoreEachHaveThemTogether) {
  const std::vector<int> cores = test::allowedCores();
  if (cores.size() < 2) {
    GTEST_SKIP() << "needs two cores";
  }
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(2, [&](int rank) {
    test::pinTo(cores[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(Segment::form(options(store, rank, 2))->cores(), 2);
  });

  EXPECT_THAT(thrown, Each(nullptr));
}

TEST(SegmentTest, AllRanksCountTheSameCores) {
  const auto store = std::make_shared<HashStore>();
  std::vector<int> counted(3);
  const auto thrown = onThreads(3, [&](int rank) {
    if (rank == 1) {
      test::pinTo(test::allowedCores().front());
    }
    counted[static_cast<std::size_t>(rank)] = Segment::form(options(store, rank, 3))->cores();
  });

  EXPECT_THAT(thrown, Each(nullptr));
  EXPECT_THAT(counted, Each(usableCores()));
}

TEST(SegmentTest, LeavesNoKeyInTheStore) {
  const auto store = std::make_shared<HashStore>();
  onThreads(3, [&](int rank) { Segment::form(options(store, rank, 3)); });

  EXPECT_EQ(store->numKeys(), 0);
}

TEST(SegmentTest, TheSameStoreServesOneGroupAfterAnother) {
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(3, [&](int rank) {
    for (int round = 0; round < 20; ++round) {
      Segment::form(options(store, rank, 3));
    }
  });

  EXPECT_THAT(thrown, Each(nullptr));
}

TEST(SegmentTest, SaysWhoHasNotCome) {
  const auto store = std::make_shared<HashStore>();
  // Long enough for the two to find each other.
  const auto thrown =
      onThreads(2, [&](int rank) { Segment::form(options(store, rank == 0 ? 0 : 2, 4, 1s)); });

  for (const std::exception_ptr& each : thrown) {
    EXPECT_THAT(textOfThrown(each),
                AllOf(HasSubstr("[TIMEOUT]"), HasSubstr("2 of 4 ranks have come, not ranks 1, 3"),
                      HasSubstr("culprits=[1,3]")));
  }
}

TEST(SegmentTest, SaysThatRankZeroHasNotCome) {
  const auto store = std::make_shared<HashStore>();
  EXPECT_THAT(textOf<DistTimeoutError>([&] { Segment::form(options(store, 1, 2, 50ms)); }),
              AllOf(HasSubstr("rank 0 has not come"), HasSubstr("[TIMEOUT]")));
}

TEST(SegmentTest, RefusesTwoWhoClaimOneRank) {
  const auto store = std::make_shared<HashStore>();
  const auto thrown =
      onThreads(3, [&](int thread) { Segment::form(options(store, thread == 0 ? 0 : 1, 3)); });

  for (const std::exception_ptr& each : thrown) {
    EXPECT_THAT(textOfThrown(each), AllOf(HasSubstr("[CONFIG]"), HasSubstr("claimed twice")));
  }
}

TEST(SegmentTest, RefusesASecondRankZero) {
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(2, [&](int) { Segment::form(options(store, 0, 2, 300ms)); });

  EXPECT_THAT(textOfThrown(thrown[0]) + textOfThrown(thrown[1]),
              AllOf(HasSubstr("[CONFIG]"), HasSubstr("rank 0 of group 'g' is claimed twice")));
}

TEST(SegmentTest, RefusesMembersThatDiffer) {
  const auto store = std::make_shared<HashStore>();
  const auto sizes = onThreads(2, [&](int rank) { Segment::form(options(store, rank, 2 + rank)); });
  EXPECT_THAT(textOfThrown(sizes[1]), HasSubstr("a group of 3, but rank 0 made one of 2"));
  EXPECT_THAT(textOfThrown(sizes[0]), HasSubstr("[CONFIG]"));

  const auto other = std::make_shared<HashStore>();
  const auto settings = onThreads(2, [&](int rank) {
    FormOptions mine = options(other, rank, 2);
    mine.settings = rank == 0 ? "allreduce=flat" : "";
    Segment::form(mine);
  });
  EXPECT_THAT(textOfThrown(settings[0]), HasSubstr("rank 0 has 'allreduce=flat'"));
  EXPECT_THAT(textOfThrown(settings[1]), HasSubstr("rank 0 has 'allreduce=flat'"));
}

TEST(SegmentTest, RefusesMembersOfAnotherVersion) {
  const auto store = std::make_shared<HashStore>();
  const auto thrown = onThreads(2, [&](int rank) {
    if (rank == 0) {
      Segment::form(options(store, 0, 2));
      return;
    }
    store->wait({"unisono/root"}, 20s);
    const Bytes record = store->get("unisono/root");
    const auto root = RootRecord::decode(asText(record));
    const JoinRequest newer{.version = kVersion + 1,
                            .size = 2,
                            .rank = 1,
                            .settings = "",
                            .process = encodeMark(thisProcess())};
    Result<LocalMessage> reply =
        askMonitor(root->socket, root->cookie, "J" + newer.encode(), test::soon());
    ASSERT_TRUE(reply.isOk());
    EXPECT_THAT(reply.value().bytes, HasSubstr("speaks version"));
    EXPECT_FALSE(reply.value().fd.valid());
  });

  EXPECT_THAT(textOfThrown(thrown[0]),
              AllOf(HasSubstr("[CONFIG]"), HasSubstr("speaks version"), HasSubstr("culprits=[1]")));
}

TEST(SegmentTest, RefusesAnotherHost) {
  const auto store = std::make_shared<HashStore>();
  RootRecord elsewhere{.version = kVersion,
                       .size = 2,
                       .host = "another-host",
                       .process = encodeMark(thisProcess()),
                       .socket = "unisono/none",
                       .cookie = std::string(32, 'c')};
  store->set("unisono/root", elsewhere.encode());

  EXPECT_THAT(textOf<DistBackendError>([&] { Segment::form(options(store, 1, 2)); }),
              AllOf(HasSubstr("spans several hosts"), HasSubstr("another-host")));
}

TEST(SegmentTest, WhoComesTooLateLearnsThatRankZeroHasGivenUp) {
  const auto store = std::make_shared<HashStore>();
  EXPECT_THROW(Segment::form(options(store, 0, 2, 10ms)), DistTimeoutError);

  EXPECT_THAT(textOf<DistBackendError>([&] { Segment::form(options(store, 1, 2, 50ms)); }),
              AllOf(HasSubstr("has given up forming group 'g'"), HasSubstr("[PEER_LEFT]")));
}

TEST(SegmentTest, ACulpritOutsideOfTheGroupIsNotNamed) {
  const auto store = std::make_shared<HashStore>();
  auto waiting = std::async(std::launch::async, [&] {
    return textOf<DistBackendError>([&] { Segment::form(options(store, 0, 2)); });
  });
  const auto root = RootRecord::decode(store->getString("unisono/root"));
  ASSERT_TRUE(root);
  SharedMapping::find(root->cookie)->header().abort.publish({.culprits = {777}, .text = "made up"});

  EXPECT_THAT(waiting.get(), AllOf(HasSubstr("made up"), Not(HasSubstr("777"))));
}

TEST(SegmentTest, ADeathDuringTheFormationEndsItForAll) {
  const test::TempDir folder;
  // By file: the child must come before the first thread.
  const auto meet = [&](int rank) {
    Segment::form(options(std::make_shared<FileStore>(folder.file("store")), rank, 3));
  };
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      meet(1);
    } catch (const DistError&) {}
    ::_exit(0);
  }
  const auto killer = std::async(std::launch::async, [&] {
    // It is about to mark itself live when it has started its monitor.
    EXPECT_TRUE(test::eventually([&] { return hasThreadNamed(child, "unisono-mon"); }));
    ::kill(child, SIGKILL);
  });

  EXPECT_THAT(textOf<DistBackendError>([&] { meet(0); }),
              AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("rank 1"), HasSubstr("culprits=[1]")));
  ::waitpid(child, nullptr, 0);
}

TEST(SegmentTest, ARootThatDiedEarlierIsReplaced) {
  const auto store = std::make_shared<HashStore>();
  ProcessMark gone = thisProcess();
  gone.startTicks += 1;  // another process that once had our number
  store->set("unisono/root", RootRecord{.version = kVersion,
                                        .size = 2,
                                        .host = hostId(),
                                        .process = encodeMark(gone),
                                        .socket = "unisono/gone",
                                        .cookie = std::string(32, 'c')}
                                 .encode());

  EXPECT_THAT(onThreads(2, [&](int rank) { Segment::form(options(store, rank, 2)); }),
              Each(nullptr));
}

TEST(SegmentTest, TheGroupFailsAlsoWithoutMemoryForWords) {
  for (int which = 0; which < 6; ++which) {
    ThreadWorld world(1);
    AbortCause cause{.culprits = {0}, .text = std::string(100, 'x')};
    {
      const test::FailingAllocation fails(which);
      cause = world.segment(0).fail(std::move(cause));
    }
    EXPECT_TRUE(world.segment(0).header().abort.isSet());
    EXPECT_EQ(cause.text, std::string(100, 'x'));
  }
}

TEST(SegmentTest, MoreMemoryIsTheSameForAll) {
  ThreadWorld world(3);
  std::vector<std::span<std::byte>> more(3);
  onThreads(3, [&](int rank) {
    if (rank != 0) {  // who need not have asked for it itself
      more[static_cast<std::size_t>(rank)] =
          world.segment(rank).extend(kRingExtension, Deadline::after(10s));
    }
  });
  more[0] = world.segment(0).extend(kRingExtension, Deadline::after(10s));

  EXPECT_EQ(more[0].size(), ringBytes(3, usualChunk(3)));
  more[0][77] = std::byte{9};
  EXPECT_EQ(more[2][77], std::byte{9});
}

TEST(SegmentTest, MemoryThatDoesNotExistIsRefused) {
  ThreadWorld world(2);
  EXPECT_THAT(test::textOf<DistError>([&] { world.segment(1).extend(99, Deadline::after(10s)); }),
              HasSubstr("there is no such memory"));
}

}  // namespace
}  // namespace unisono::shm
