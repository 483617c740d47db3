#include "transport/mesh/courier.hpp"

#include <csignal>
#include <gmock/gmock.h>
#include <numeric>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "unisono/store/file_store.hpp"

#include "net/connect.hpp"
#include "store/expect.hpp"
#include "support/forked.hpp"
#include "support/support.hpp"
#include "support/watch.hpp"
#include "transport/mesh_world.hpp"

namespace unisono::mesh {
namespace {

using test::Forked;
using test::meshOptions;
using test::MeshRank;
using test::MeshWorld;
using test::onThreads;
using test::operate;
using test::ScopedEnv;
using test::TempDir;
using test::testCall;
using test::textOf;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

std::vector<std::byte> pattern(int rank, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(rank) * 7);
  }
  return bytes;
}

/// Everybody gives its right neighbour a block and gets one from its left.
void shift(Communicator& comm, std::size_t bytes) {
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  const auto mine = pattern(comm.rank(), bytes);
  std::vector<std::byte> theirs(bytes);
  operate(comm, [&] { comm.exchange({next, mine}, {.rank = previous, .block = theirs}); });
  EXPECT_EQ(theirs, pattern(previous, bytes)) << bytes << " bytes";
}

class CourierTest : public ::testing::TestWithParam<int> {};

TEST_P(CourierTest, BlocksOfAnySizeComeAsTheyWere) {
  MeshWorld world(GetParam());
  world.run([](Courier& comm) {
    for (const std::size_t bytes : {0UL, 1UL, 47UL, 4096UL, 300'001UL, 5'000'000UL}) {
      shift(comm, bytes);
    }
  });
}

TEST_P(CourierTest, EverybodyMayTalkToEverybodyAtOnce) {
  MeshWorld world(GetParam());
  constexpr std::size_t kBytes = 700'000;  // more than the kernel keeps
  world.run([](Courier& comm) {
    const auto mine = pattern(comm.rank(), kBytes);
    std::vector<std::vector<std::byte>> theirs(static_cast<std::size_t>(comm.size()));
    std::vector<SendTo> out;
    std::vector<RecvFrom> in;
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer != comm.rank()) {
        auto& block = theirs[static_cast<std::size_t>(peer)];
        block.resize(kBytes);
        out.push_back({peer, mine});
        in.push_back({.rank = peer, .block = block});
      }
    }
    operate(comm, [&] { comm.transfer(out, in); });
    for (const RecvFrom& each : in) {
      EXPECT_TRUE(std::ranges::equal(each.block, pattern(each.rank, kBytes)));
    }
  });
}

TEST_P(CourierTest, WhatIsReducedIsReducedInTheOrderThatWasAskedFor) {
  MeshWorld world(GetParam());
  const Reduction sum = Reduction::of(DType::FLOAT64, ReduceOp::SUM, GetParam());
  const Reduction least = Reduction::of(DType::FLOAT64, ReduceOp::MIN, GetParam());
  world.run([&](Courier& comm) {
    constexpr std::size_t kElements = 100'003;
    std::vector<double> mine(kElements);
    std::iota(mine.begin(), mine.end(), comm.rank());
    const std::vector<double> given = mine;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    operate(comm, [&] {
      comm.exchange({next, std::as_bytes(std::span(given))},
                    {.rank = previous,
                     .block = std::as_writable_bytes(std::span(mine)),
                     .into = RecvFrom::Into::AFTER,
                     .reduction = &sum});
    });
    for (std::size_t i = 0; i < kElements; i += 997) {
      EXPECT_EQ(mine[i], 2.0 * static_cast<double>(i) + comm.rank() + previous);
    }
    // Of two zeros the earlier one wins: that tells who was first.
    for (const auto into : {RecvFrom::Into::BEFORE, RecvFrom::Into::AFTER}) {
      double zero = 0.0;
      const double other = -0.0;
      operate(comm, [&] {
        comm.exchange({next, std::as_bytes(std::span(&other, 1))},
                      {.rank = previous,
                       .block = std::as_writable_bytes(std::span(&zero, 1)),
                       .into = into,
                       .reduction = &least});
      });
      EXPECT_EQ(std::signbit(zero), into == RecvFrom::Into::BEFORE);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CourierTest, ::testing::Values(2, 3, 5));

TEST(CourierWorldTest, RanksThatShareFewCoresGetOn) {
  MeshWorld world(6, 1);
  world.run([](Courier& comm) {
    for (int turn = 0; turn < 50; ++turn) {
      shift(comm, 1000);
    }
  });
}

TEST(CourierWorldTest, LinksAreMadeForThoseWhoNeedThem) {
  MeshWorld world(4);
  world.run([](Courier& comm) { shift(comm, 10); });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(world.mesh(rank).links().size(), 2U);  // one out, one in
  }
}

TEST(CourierFailureTest, DifferentCallsAreToldToAll) {
  MeshWorld world(3);
  const auto thrown = world.outcomes([](Courier& comm) {
    std::byte out{};
    std::byte in{};
    const int next = (comm.rank() + 1) % 3;
    const int previous = (comm.rank() + 2) % 3;
    operate(
        comm,
        [&] {
          comm.exchange({next, {&out, 1}}, {.rank = previous, .block = {&in, 1}});
        },
        testCall(comm.rank() == 2 ? 7 : 1));
    // Who has heard nobody who differs hears of it in the next.
    operate(comm, [&] { comm.exchange({next, {&out, 1}}, {.rank = previous, .block = {&in, 1}}); });
  });
  for (const auto& each : thrown) {
    EXPECT_THAT(textOfThrown(each),
                AllOf(HasSubstr("[MISMATCH]"), HasSubstr("rank 2 calls test 7")));
  }
}

TEST(CourierFailureTest, RanksThatWaitForEachOtherAskWhatTheyHaveCalled) {
  MeshWorld world(2);
  const auto thrown = world.outcomes([](Courier& comm) {
    std::byte in{};
    const RecvFrom fromOther{.rank = 1 - comm.rank(), .block = {&in, 1}};
    operate(
        comm,
        [&] {
          comm.transfer({}, {&fromOther, 1});
        },
        testCall(static_cast<std::uint32_t>(comm.rank()) + 4));
  });
  for (const auto& each : thrown) {
    EXPECT_THAT(textOfThrown(each), AllOf(HasSubstr("[MISMATCH]"), HasSubstr("calls test 4"),
                                          HasSubstr("calls test 5")));
  }
}

TEST(CourierFailureTest, WhoIsOperationsFurtherStillTellsWhatItCalled) {
  MeshWorld world(3);
  const auto thrown = world.outcomes([](Courier& comm) {
    std::byte byte{};
    const RecvFrom fromNext{.rank = 1, .block = {&byte, 1}};
    if (comm.rank() == 0) {  // waits for one who has called something else, and has done it
      operate(
          comm,
          [&] {
            comm.transfer({}, {&fromNext, 1});
          },
          testCall(4));
    }
    const SendTo toOther{comm.rank() == 1 ? 2 : 1, {&byte, 1}};
    const RecvFrom fromOther{.rank = toOther.rank, .block = {&byte, 1}};
    for (int turn = 0; turn < 5; ++turn) {
      operate(
          comm,
          [&] {
            comm.transfer({&toOther, 1}, {&fromOther, 1});
          },
          testCall(5));
    }
    const RecvFrom fromFirst{.rank = 0, .block = {&byte, 1}};
    operate(
        comm,
        [&] {
          comm.transfer({}, {&fromFirst, 1});
        },
        testCall(6));
  });
  for (const auto& each : thrown) {
    EXPECT_THAT(textOfThrown(each), AllOf(HasSubstr("[MISMATCH]"), HasSubstr("calls test 4"),
                                          HasSubstr("calls test 5")));
  }
}

TEST(CourierFailureTest, AnotherNumberOfBytesIsAMismatch) {
  MeshWorld world(2);
  const auto thrown = world.outcomes([](Courier& comm) {
    std::vector<std::byte> out(comm.rank() == 0 ? 10 : 20);
    std::vector<std::byte> in(10);
    operate(comm, [&] {
      comm.exchange({1 - comm.rank(), out}, {.rank = 1 - comm.rank(), .block = in});
    });
    operate(comm, [&] {
      comm.exchange({1 - comm.rank(), out}, {.rank = 1 - comm.rank(), .block = in});
    });
  });
  for (const auto& each : thrown) {
    EXPECT_THAT(textOfThrown(each),
                AllOf(HasSubstr("[MISMATCH]"), HasSubstr("gives 20 bytes where 10 are expected")));
  }
}

TEST(CourierFailureTest, WhoNeverCallsIsNamedWhenTimeIsOver) {
  MeshWorld world(4);
  const auto thrown = world.outcomes([](Courier& comm) {
    if (comm.rank() == 2) {
      return;
    }
    std::byte out{};
    std::byte in{};
    operate(
        comm,
        [&] {
          comm.exchange({(comm.rank() + 1) % 4, {&out, 1}},
                        {.rank = (comm.rank() + 3) % 4, .block = {&in, 1}});
          comm.exchange({(comm.rank() + 2) % 4, {&out, 1}},
                        {.rank = (comm.rank() + 2) % 4, .block = {&in, 1}});
        },
        testCall(1, 300ms));
  });
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(
        textOfThrown(thrown[static_cast<std::size_t>(rank)]),
        AllOf(HasSubstr("[TIMEOUT]"), HasSubstr("Waiting for rank 2"), HasSubstr("culprits=[2]")));
  }
}

TEST(CourierFailureTest, WhoHasLeftIsNamed) {
  MeshWorld world(3);
  world.run([](Courier& comm) { shift(comm, 10); });
  world.drop(1);
  const auto thrown = world.outcomes([](Courier& comm) {
    shift(comm, 10);  // rank 0, which only gives something to rank 1, may learn of it a bit later
    shift(comm, 10);
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(textOfThrown(thrown[static_cast<std::size_t>(rank)]),
                AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[1]")));
  }
}

TEST(CourierFailureTest, WhoHasLeftBeforeTheFirstMessageIsNamed) {
  MeshWorld world(2);
  world.drop(0);
  const auto thrown = world.outcomes([](Courier& comm) {
    std::byte in{};
    operate(comm, [&] { comm.receive({.rank = 0, .block = {&in, 1}}); });
  });
  EXPECT_THAT(textOfThrown(thrown[1]), AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[0]")));
}

TEST(CourierFailureTest, WhoLeavesWhileItIsWaitedForIsNamed) {
  MeshWorld world(2);
  const auto thrown = world.outcomes([&](Courier& comm) {
    if (comm.rank() == 0) {
      // The other has found out that rank 0 lives.
      pollfd bell{.fd = world.mesh(0).bell(), .events = POLLIN, .revents = 0};
      EXPECT_TRUE(test::eventually([&] { return ::poll(&bell, 1, 0) == 1; }));
      world.mesh(0).leave();
      return;
    }
    std::byte in{};
    operate(comm, [&] { comm.receive({.rank = 0, .block = {&in, 1}}); });
  });
  EXPECT_THAT(textOfThrown(thrown[1]), AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[0]")));
}

TEST(CourierFailureTest, ACauseTravelsToThoseWhoHaveNothingToDoWithIt) {
  MeshWorld world(5);
  world.run([](Courier& comm) { shift(comm, 10); });
  const auto thrown = world.outcomes([&](Courier& comm) {
    if (comm.rank() == 3) {
      world.mesh(3).fail(
          {.reason = Reason::ABORTED, .culprits = {3}, .reporter = 3, .text = "no more"});
      return;
    }
    // 4 waits for 3; 0 for 4, 1 for 0, 2 for 1.
    std::byte in{};
    operate(comm, [&] { comm.receive({.rank = (comm.rank() + 4) % 5, .block = {&in, 1}}); });
  });
  for (const int rank : {0, 1, 2, 4}) {
    EXPECT_THAT(textOfThrown(thrown[static_cast<std::size_t>(rank)]),
                AllOf(HasSubstr("[ABORTED]"), HasSubstr("no more"), HasSubstr("culprits=[3]")));
  }
}

TEST(CourierFailureTest, AWaitIsEndedFromAnotherThread) {
  MeshWorld world(2);
  const auto thrown = world.outcomes([&](Courier& comm) {
    if (comm.rank() == 1) {
      return;
    }
    std::vector<std::byte> out(50'000'000);  // the other never reads it
    std::thread other([&] {
      world.mesh(0).fail(
          {.reason = Reason::ABORTED, .culprits = {0}, .reporter = 0, .text = "enough"});
    });
    try {
      operate(comm, [&] { comm.send({1, out}); });
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
  });
  EXPECT_THAT(textOfThrown(thrown[0]), AllOf(HasSubstr("[ABORTED]"), HasSubstr("enough")));
  // The other, who got a block by half, finds out why.
  const auto later = world.outcomes([&](Courier& comm) {
    std::vector<std::byte> in(50'000'000);
    operate(comm, [&] { comm.receive({.rank = 0, .block = in}); });
  });
  EXPECT_THAT(textOfThrown(later[1]), AllOf(HasSubstr("[ABORTED]"), HasSubstr("enough")));
}

TEST(CourierProcessTest, ARankThatIsKilledIsNamedByThoseWhoWaitForIt) {
  const TempDir folder;
  const std::string cookie = randomId();
  const auto rankOf = [&](int rank) {
    return MeshRank(
        meshOptions(std::make_shared<FileStore>(folder.file("store"), 3), rank, 3, cookie), 3);
  };
  const auto waitFor2 = [](Courier& comm) {
    shift(comm, 10);
    std::byte in{};
    operate(comm, [&] { comm.receive({.rank = 2, .block = {&in, 1}}); });
  };
  const Forked first([&] {
    const MeshRank mine = rankOf(1);
    const std::string text = textOf<DistError>([&] { waitFor2(*mine.courier); });
    // Rank 0 may not have come to it yet, and would find two of them dead.
    FileStore(folder.file("end"), 2).wait({"rank 0"}, 20s);
    ::_exit(text.find("[PEER_DEAD]") != std::string::npos &&
                    text.find("culprits=[2]") != std::string::npos
                ? 42
                : 43);
  });
  const Forked second([&] {
    const MeshRank mine = rankOf(2);
    shift(*mine.courier, 10);
    ::kill(::getpid(), SIGKILL);
  });
  const MeshRank mine = rankOf(0);
  EXPECT_THAT(textOf<DistBackendError>([&] { waitFor2(*mine.courier); }),
              AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[2]"),
                    HasSubstr(str("process ", second.pid()))));
  FileStore(folder.file("end"), 2).set("rank 0", "knows");
  int status = 0;
  ASSERT_EQ(::waitpid(first.pid(), &status, 0), first.pid());
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

/// With a message to it first, or only waiting for one from it.
class CourierStoppedTest : public ::testing::TestWithParam<bool> {};

TEST_P(CourierStoppedTest, ARankThatIsStoppedIsLateAndNotLost) {
  const ScopedEnv netDead("UNISONO_NET_DEAD_MS", "1000");
  const TempDir folder;
  const std::string cookie = randomId();
  const auto rankOf = [&](int rank) {
    return MeshRank(
        meshOptions(std::make_shared<FileStore>(folder.file("store"), 2), rank, 2, cookie), 2);
  };
  const Forked other([&] {
    const MeshRank mine = rankOf(1);
    ::kill(::getpid(), SIGSTOP);
  });
  const MeshRank mine = rankOf(0);
  ASSERT_TRUE(test::eventually([&] { return lookAt(other.pid())->state == 'T'; }));
  std::byte byte{};
  const auto wait = [&] {
    operate(
        *mine.courier,
        [&] {
          if (GetParam()) {
            mine.courier->send({1, {&byte, 1}});
          }
          mine.courier->receive({.rank = 1, .block = {&byte, 1}});
        },
        testCall(1, 3500ms));
  };
  EXPECT_THAT(textOf<DistTimeoutError>(wait),
              AllOf(HasSubstr("[TIMEOUT]"), HasSubstr("culprits=[1]")));
}

INSTANTIATE_TEST_SUITE_P(Ways, CourierStoppedTest, ::testing::Bool());

/// Rank 0 has a secret; rank 1 has this one, or none.
class CourierSecretTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CourierSecretTest, AnotherIsNamed) {
  const TempDir folder;
  const std::string cookie = randomId();
  const auto rankOf = [&](int rank) {
    return MeshRank(
        meshOptions(std::make_shared<FileStore>(folder.file("store"), 2), rank, 2, cookie), 2);
  };
  const Forked other([&] {
    const ScopedEnv secret("UNISONO_AUTH_SECRET", GetParam());
    const MeshRank mine = rankOf(1);
    EXPECT_THROW(shift(*mine.courier, 10), DistBackendError);
    // Refused first, it would be gone before the other is.
    pauseFor(20s, {.deadline = Deadline::after(20s), .subject = {}});
  });
  const ScopedEnv secret("UNISONO_AUTH_SECRET", "a secret of the parent");
  const MeshRank mine = rankOf(0);
  const std::string text = textOf<DistBackendError>([&] { shift(*mine.courier, 10); });
  EXPECT_THAT(text, AllOf(HasSubstr("[AUTH_FAILED]"), HasSubstr("rank 1"),
                          HasSubstr("UNISONO_AUTH_SECRET")));
  EXPECT_THAT(text, Not(HasSubstr("of the parent")));
}

INSTANTIATE_TEST_SUITE_P(Secrets, CourierSecretTest,
                         ::testing::Values("another secret than yours", ""));

}  // namespace
}  // namespace unisono::mesh
