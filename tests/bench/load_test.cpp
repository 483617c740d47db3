#include "bench/store/load.hpp"

#include <gtest/gtest.h>

#include "base/wait.hpp"
#include "store/tcp/server.hpp"
#include "support/fake_server.hpp"

namespace unisono::bench {
namespace {

TEST(LoadTest, TakesRepliesWhileItStillSends) {
  // A server of ours ceases to read from those who leave much unread.
  const tcp::StoreServer server({.host = "127.0.0.1"}, Deadline::after(Milliseconds(5000)));
  constexpr std::size_t kValue = 1 << 20;
  Exchange both = exchange(Dialect::UNISONO, "set", kValue);
  const Exchange get = exchange(Dialect::UNISONO, "get", kValue);
  both.request += get.request;
  both.replyBytes += get.replyBytes;
  Load load({.name = "ours", .port = server.port()}, 1);

  const LoadFigures figures = load.run(both, 24, Milliseconds(1));

  EXPECT_GT(figures.opsPerSecond, 0);
}

struct Stop {};
thread_local bool interrupted = false;

TEST(LoadTest, ObeysInterruptsWhileItWaits) {
  test::FakeServer silent([](Socket& client, int) { test::drain(client); });
  setInterruptHook([] {
    if (interrupted) {  // not the server's threads
      throw Stop();
    }
  });
  interrupted = true;

  EXPECT_THROW(Load({.name = "silent", .port = silent.port()}, 1), Stop);

  interrupted = false;
  setInterruptHook(nullptr);
}

}  // namespace
}  // namespace unisono::bench
