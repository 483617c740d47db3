// Groups whose ranks cannot all share memory: they meet by TCP, and what they do is the same.
#include <cstdlib>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/group/group.hpp"
#include "unisono/store/file_store.hpp"

#include "group/in_world.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::inWorld;
using test::ScopedEnv;
using test::TempDir;
using test::textOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// Where the ranks of a world are, and what each of them is told.
struct Placement {
  std::string name;
  std::vector<std::string> hosts;       // by rank
  std::vector<std::string> transports;  // by rank; empty: none is told anything
  std::string address = {};             // of all; empty: none is told
};

std::ostream& operator<<(std::ostream& out, const Placement& placement) {
  return out << placement.name;
}

/// Some of everything; whether all of it is right.
bool worksWell(Group world) {
  const int size = world.size();
  std::vector<float> sum(1000, static_cast<float>(world.rank()));
  world.allReduce(sum);
  std::vector<double> large(200'000, 1.0);
  world.allReduce(large);
  std::vector<int> all(static_cast<std::size_t>(size));
  const int mine[1] = {world.rank() * 10};
  world.allGather(std::span(mine), all);
  std::vector<int> told(3, world.rank());
  world.broadcast(told, {.root = size - 1});
  world.barrier();
  const int next = (world.rank() + 1) % size;
  const int before = (world.rank() + size - 1) % size;
  bool right = true;
  for (const std::size_t count : {1U, 100'000U}) {  // short, and one that is offered first
    std::vector<int> sent(count, world.rank());
    std::vector<int> got(count, -1);
    const WorkPtr sending = world.send(sent, next, {.tag = 3, .async = true});
    const WorkPtr received = world.recv(got, std::nullopt, {.tag = 3});
    right = right && received->sourceRank() == before && got.back() == before;
    sending->wait();
  }
  for (int rank = 0; rank < size; ++rank) {
    right = right && all[static_cast<std::size_t>(rank)] == rank * 10;
  }
  return right && sum[999] == static_cast<float>(size * (size - 1) / 2) &&
         large[123'456] == static_cast<double>(size) && told[2] == size - 1;
}

class HostsTest : public ::testing::TestWithParam<Placement> {};

TEST_P(HostsTest, RanksInProcessesOfTheirOwnWorkTogether) {
  if (GetParam().address == "::1" && ::access("/proc/net/if_inet6", R_OK) != 0) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  const TempDir folder;
  const int size = static_cast<int>(GetParam().hosts.size());
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto at = static_cast<std::size_t>(rank);
      ::setenv("UNISONO_HOST_ID", GetParam().hosts[at].c_str(), 1);
      if (!GetParam().transports.empty()) {
        ::setenv("UNISONO_TRANSPORT", GetParam().transports[at].c_str(), 1);
      }
      if (!GetParam().address.empty()) {
        ::setenv("UNISONO_HOST_ADDR", GetParam().address.c_str(), 1);
      }
      try {
        const auto store = std::make_shared<FileStore>(folder.file("store"), size);
        const bool right =
            worksWell(init({.store = store, .rank = rank, .size = size, .timeout = 60s}));
        ::_exit(right ? 0 : 1);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        ::_exit(2);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Placements, HostsTest,
    ::testing::Values(Placement{"TwoHosts", {"a", "b"}, {}},
                      Placement{"TwoRanksEach", {"a", "a", "b", "b"}, {}},
                      Placement{"Unequal", {"a", "b", "b", "b", "c"}, {}},
                      Placement{"RankZeroAlone", {"a", "b", "b"}, {}},
                      Placement{"ThreeHostsByIpv6", {"a", "b", "b", "c"}, {}, "::1"},
                      Placement{"OneHostByTcp", {"a", "a", "a"}, {"tcp", "tcp", "tcp"}},
                      Placement{"OnlyRankZeroIsTold", {"a", "a", "a"}, {"^shm", "", ""}},
                      Placement{"OnlyAnotherIsTold", {"a", "a", "a"}, {"", "", "tcp"}}),
    [](const auto& row) { return row.param.name; });

TEST(TransportTest, AnUnknownOneIsRefused) {
  const ScopedEnv transport("UNISONO_TRANSPORT", "pigeon");
  EXPECT_THAT(textOf<UsageError>([] { inWorld(1, [](const Group&) {}); }),
              AllOf(HasSubstr("pigeon"), HasSubstr("[CONFIG]"), HasSubstr("shm, tcp")));
}

TEST(TransportTest, AnAlgorithmThatIsForcedIsTaken) {
  const ScopedEnv transport("UNISONO_TRANSPORT", "tcp");
  // Around a ring 256 + 1 + 1 is rounded to eight bits in every step.
  for (const auto& [forced, sum] :
       {std::pair("", 258.0F), std::pair("reduce_scatter=tcp/ring", 256.0F)}) {
    const ScopedEnv algorithm("UNISONO_ALGO", forced);
    inWorld(3, [sum = sum](Group world) {
      const std::vector<BFloat16> give(3, BFloat16(world.rank() == 1 ? 256.0F : 1.0F));
      std::vector<BFloat16> mine(1);
      world.reduceScatter(give, mine);
      EXPECT_TRUE(world.rank() != 0 || static_cast<float>(mine[0]) == sum);
    });
  }
}

TEST(TransportTest, MessagesGoByTcpWhileAllReduce) {
  const ScopedEnv transport("UNISONO_TRANSPORT", "tcp");
  inWorld(3, [](Group world) {
    std::vector<int> sum(1000, 1);
    const WorkPtr reducing = world.allReduce(sum, {.async = true});
    if (world.rank() == 0) {
      for (const int tag : {2, 1}) {
        for (int i = 0; i < 2; ++i) {
          int number[1] = {-1};
          const WorkPtr got = world.recv(number, std::nullopt, {.tag = tag});
          EXPECT_EQ(number[0], got->sourceRank() * 10 + tag);
        }
      }
    } else {
      for (const int tag : {1, 2}) {
        const int number[1] = {world.rank() * 10 + tag};
        world.send(number, 0, {.tag = tag});
      }
    }
    reducing->wait();
    EXPECT_THAT(sum, Each(3));
  });
}

TEST(TransportTest, TheInterfaceMustExist) {
  const ScopedEnv transport("UNISONO_TRANSPORT", "tcp");
  const ScopedEnv interface("UNISONO_IFNAME", "nosuch0");
  EXPECT_THAT(textOf<UsageError>([] { inWorld(1, [](const Group&) {}); }),
              AllOf(HasSubstr("nosuch0"), HasSubstr("lo"), HasSubstr("[CONFIG]")));
}

TEST(TransportTest, APublicAddressNeedsASecret) {
  const ScopedEnv transport("UNISONO_TRANSPORT", "tcp");
  const ScopedEnv address("UNISONO_HOST_ADDR", "192.0.2.7");
  EXPECT_THAT(textOf<UsageError>([] { inWorld(1, [](const Group&) {}); }),
              AllOf(HasSubstr("192.0.2.7"), HasSubstr("UNISONO_AUTH_SECRET_FILE")));
}

TEST(TransportTest, SubgroupsAndAsynchronousOperationsGoByTcpToo) {
  const ScopedEnv transport("UNISONO_TRANSPORT", "tcp");
  inWorld(4, [](Group world) {
    Group half = world.split(world.rank() % 2).value();
    std::vector<int> data(100, world.rank());
    half.allReduce(data);
    EXPECT_THAT(data, Each(world.rank() % 2 == 0 ? 2 : 4));
    std::vector<std::vector<int>> many(200, std::vector<int>(10, 1));
    std::vector<WorkPtr> works;
    for (auto& each : many) {
      works.push_back(world.allReduce(each, {.async = true}));
    }
    for (const WorkPtr& work : works) {
      work->wait();
    }
    EXPECT_THAT(many, Each(Each(4)));
  });
}

}  // namespace
}  // namespace unisono
