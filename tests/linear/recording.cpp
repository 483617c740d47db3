#include "linear/recording.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "unisono/store/tcp_store.hpp"

#include "linear/workload.hpp"
#include "support/fake_server.hpp"
#include "support/server_process.hpp"

namespace unisono::linear {
namespace {

using namespace std::chrono_literals;

std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// How often in the course of a history something is done to the server or the connections.
constexpr int kDisturbances = 40;
// How long the server does nothing: long enough for all clients to come to a halt.
constexpr auto kPause = 15ms;

/// Makes its calls, with a new store whenever one is lost, and counts them.
History work(std::uint16_t port, const RecordingOptions& options, int client,
             std::atomic<int>& made) {
  const bool synchronous = options.how.synchronous;
  Workload workload({.client = client,
                     .seed = options.seed * 1000 + static_cast<std::uint64_t>(client),
                     .synchronous = synchronous,
                     .clock = now});
  std::unique_ptr<TCPStore> store;
  for (int i = 0; i < options.calls; ++i) {
    if (!store) {
      store = std::make_unique<TCPStore>(
          "127.0.0.1", TCPStoreOptions{.port = port, .timeout = 20s, .syncWrites = synchronous});
      store->setTimeout(300ms);
    }
    if (i % 8 == 0) {  // calls that wait in vain are only tried now and then
      store->setTimeout(i % 16 == 0 ? 0ms : 300ms);
    }
    if (!workload.oneCall(*store)) {
      store.reset();
    }
    ++made;
    made.notify_one();
  }
  return workload.take();
}

}  // namespace

History record(const RecordingOptions& options) {
  const Circumstances& how = options.how;
  test::ServerProcess server(how.useLibUv);
  test::CuttingProxy proxy(server.port());
  std::vector<History> histories(static_cast<std::size_t>(options.clients));
  std::atomic<int> made{0};
  const int allCalls = options.clients * options.calls;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.clients; ++i) {
      threads.emplace_back([&, i] {
        // Half of them are cut off; the others see what that does to the store.
        const std::uint16_t port = how.cuts && i % 2 == 0 ? proxy.port() : server.port();
        histories[static_cast<std::size_t>(i)] = work(port, options, i, made);
      });
    }
    // Disturbed are those who are at work: after so many calls each time, however long they take.
    for (int turn = 1; (how.pauses || how.cuts) && turn < kDisturbances; ++turn) {
      for (int now = made; now < allCalls / kDisturbances * turn; now = made) {
        made.wait(now);
      }
      if (how.pauses) {
        server.stop();
        std::this_thread::sleep_for(kPause);
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
  return all;
}

}  // namespace unisono::linear
