// Control collectives between processes, some of which stop or die.
#include <csignal>
#include <gmock/gmock.h>
#include <memory>
#include <vector>

#include "unisono/control/store_collectives.hpp"
#include "unisono/store/file_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/bounds.hpp"
#include "support/server_process.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::errorOf;
using test::Process;
using test::ServerProcess;
using test::TempDir;
using ::testing::ElementsAre;
using namespace std::chrono_literals;

constexpr int kProcesses = 3;
constexpr auto kPatience = 60s;

std::shared_ptr<Store> clientOf(const ServerProcess& server) {
  return std::make_shared<TCPStore>("127.0.0.1", TCPStoreOptions{.port = server.port()});
}

/// 0 when all collectives gave `rank` what they should.
int rankOf(const std::shared_ptr<Store>& store, int rank) {
  StoreCollectives ranks(store, rank, kProcesses);
  const std::vector<Bytes> all = ranks.allGather("who", str("rank ", rank), kPatience);
  if (all.size() != kProcesses || asText(all[2]) != "rank 2") {
    return 1;
  }
  if (ranks.allSum("sum", rank, kPatience) != 3) {
    return 2;
  }
  if (rank == 0) {
    ranks.broadcastSend("word", "go", kPatience);
  } else if (asText(ranks.broadcastRecv("word", kPatience)) != "go") {
    return 3;
  }
  ranks.barrier("end", kPatience);
  return 0;
}

void expectAllSucceed(const std::function<std::shared_ptr<Store>()>& makeStore) {
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < kProcesses; ++rank) {
    ranks.push_back(std::make_unique<Process>([&] { return rankOf(makeStore(), rank); }));
  }
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->join(), 0);
  }
}

TEST(ControlProcessesTest, RanksMeetOverAServer) {
  const ServerProcess server;
  expectAllSucceed([&] { return clientOf(server); });
}

TEST(ControlProcessesTest, RanksMeetOverAFile) {
  const TempDir folder;
  expectAllSucceed([&] { return std::make_shared<FileStore>(folder.file("store")); });
}

TEST(ControlProcessesTest, ARankThatDiedOnTheWayIsNamed) {
  const ServerProcess server;
  Process dies([&] {
    StoreCollectives(clientOf(server), 1, kProcesses).barrier("before", 0ms, false);
    return 0;
  });
  ASSERT_EQ(dies.join(), 0);
  StoreCollectives ranks(clientOf(server), 2, kProcesses);

  const auto before = errorOf([&] { ranks.barrier("before", 30ms); });
  const auto after = errorOf([&] { ranks.barrier("after", 30ms); });

  ASSERT_TRUE(before && after);
  EXPECT_THAT(before->culprits, ElementsAre(0));
  EXPECT_THAT(after->culprits, ElementsAre(0, 1));
}

TEST(ControlProcessesTest, AServerThatIsKilledEndsEveryWaitAtOnce) {
  ServerProcess server;
  StoreCollectives ranks(clientOf(server), 0, kProcesses);
  ranks.broadcastSend("k", "x", kPatience);
  server.kill();

  const auto began = std::chrono::steady_clock::now();
  for (const std::string key : {"first", "second"}) {
    EXPECT_EQ(test::reasonOf<DistNetworkError>([&] { ranks.barrier(key, kPatience); }),
              Reason::STORE_LOST);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, kPatience / 2);
}

TEST(ControlProcessesTest, AServerThatDoesNotAnswerHoldsNobodyBeyondTheTimeout) {
  ServerProcess server;
  StoreCollectives ranks(clientOf(server), 0, kProcesses);
  ranks.broadcastSend("k", "x", kPatience);
  server.stop();

  const auto began = std::chrono::steady_clock::now();
  EXPECT_THROW(ranks.barrier("barrier", 600ms), DistError);
  EXPECT_THROW(ranks.broadcastRecv("broadcast", 600ms), DistError);
  EXPECT_LT(std::chrono::steady_clock::now() - began, kPatience / 2);
}

}  // namespace
}  // namespace unisono
