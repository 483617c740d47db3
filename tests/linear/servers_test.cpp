// Real servers under faults: what their clients were told can be put in order.
#include <atomic>
#include <gmock/gmock.h>
#include <thread>

#include "unisono/base/error.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "linear/checker.hpp"
#include "linear/workload.hpp"
#include "support/fake_server.hpp"
#include "support/server_process.hpp"

namespace unisono::linear {
namespace {

using namespace std::chrono_literals;

struct Circumstances {
  const char* name;
  bool useLibUv;
  bool synchronous;
  bool pauses;  // of the server
  bool cuts;    // of connections
};

std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// Makes `calls`, with a new store whenever one is lost.
History work(std::uint16_t port, const Circumstances& how, int client, int calls) {
  Workload workload({.client = client,
                     .seed = static_cast<std::uint64_t>(client) + 1,
                     .synchronous = how.synchronous,
                     .clock = now});
  std::unique_ptr<TCPStore> store;
  for (int i = 0; i < calls; ++i) {
    if (!store) {
      store = std::make_unique<TCPStore>(
          "127.0.0.1",
          TCPStoreOptions{.port = port, .timeout = 20s, .syncWrites = how.synchronous});
      store->setTimeout(300ms);
    }
    if (i % 8 == 0) {  // calls that wait in vain are only tried now and then
      store->setTimeout(i % 16 == 0 ? 0ms : 300ms);
    }
    if (!workload.oneCall(*store)) {
      store.reset();
    }
  }
  return workload.take();
}

class LinearServersTest : public ::testing::TestWithParam<Circumstances> {};
INSTANTIATE_TEST_SUITE_P(
    Circumstances, LinearServersTest,
    ::testing::Values(Circumstances{"Uv", true, false, false, false},
                      Circumstances{"Poll", false, false, false, false},
                      Circumstances{"SynchronousWrites", true, true, false, false},
                      Circumstances{"PausesOfTheServer", true, false, true, false},
                      Circumstances{"CutConnections", true, false, false, true},
                      Circumstances{"PausesAndCuts", false, true, true, true}),
    [](const auto& kind) { return kind.param.name; });

TEST_P(LinearServersTest, GiveAnswersThatCanBePutInOrder) {
  const Circumstances how = GetParam();
  constexpr int kClients = 6;
  constexpr int kCalls = 400;
  test::ServerProcess server(how.useLibUv);
  test::CuttingProxy proxy(server.port());
  std::vector<History> histories(kClients);
  std::atomic<int> busy{kClients};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        // Half of them are cut off; the others see what that does to the store.
        const std::uint16_t port = how.cuts && i % 2 == 0 ? proxy.port() : server.port();
        histories[static_cast<std::size_t>(i)] = work(port, how, i, kCalls);
        --busy;
      });
    }
    for (int turn = 0; busy > 0; ++turn) {
      std::this_thread::sleep_for(10ms);
      if (how.pauses) {
        server.stop();
        std::this_thread::sleep_for(15ms);
        server.resume();
      }
      if (how.cuts && turn % 5 == 4) {  // every cut leaves calls of which nobody knows
        proxy.cutAll();
      }
    }
  }
  History all;
  for (const History& history : histories) {
    all.insert(all.end(), history.begin(), history.end());
  }

  const Verdict verdict = check(all, 400'000);

  // With many calls of which nobody knows, the search may have to be given up undecided.
  EXPECT_TRUE(verdict.isFine() || (how.cuts && verdict.kind == Verdict::Kind::TOO_LONG))
      << verdict.why;
  RecordProperty("calls", static_cast<int>(all.size()));
  RecordProperty("steps", static_cast<int>(verdict.steps));
}

}  // namespace
}  // namespace unisono::linear
