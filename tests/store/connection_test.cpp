#include "store/tcp/connection.hpp"

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <thread>

#include "base/str.hpp"
#include "net/net_support.hpp"
#include "store/tcp/dial.hpp"

namespace unisono::tcp {
namespace {

using namespace std::chrono_literals;

// Every piece costs two turns of the scheduler.
constexpr Milliseconds kPiecesTime(100'000);

/// Sends `bytes` one at a time, each when the one before has been taken.
void sendInPieces(Socket& socket, std::string_view bytes) {
  const Deadline deadline = Deadline::after(kPiecesTime);
  for (std::size_t i = 0; i < bytes.size() && !deadline.expired(); ++i) {
    ASSERT_TRUE(socket.sendAll(bytes.substr(i, 1), deadline).isDone());
    for (int left = 1; left > 0 && !deadline.expired();) {
      ::ioctl(socket.fd(), SIOCOUTQ, &left);
      std::this_thread::yield();
    }
  }
}

TEST(ConnectionTest, PutsAValueTogetherFromVeryManyPieces) {
  auto pair = ::unisono::test::socketPair();
  std::string value(4'000, '\0');
  for (std::size_t i = 0; i < value.size(); ++i) {
    value[i] = static_cast<char>(i * 7 + i / 256);
  }
  const std::uint64_t size = value.size();
  const std::string sent =
      std::string(reinterpret_cast<const char*>(&size), sizeof size) + value + "!";
  const std::jthread sender([&] { sendInPieces(pair.far, sent); });
  Connection connection(std::move(pair.near), "the test");
  const Call call("get", {}, kPiecesTime);

  EXPECT_TRUE(connection.blob(call) == value);
  EXPECT_EQ(connection.byte(call), '!');
}

TEST(DialPausesTest, AServerThatIsLateIsFoundSoon) {
  SeededRng rng(1);
  Backoff pauses(kDialPauses, rng);
  EXPECT_LE(pauses.next(), 5ms);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LE(pauses.next(), 375ms);
  }
}

}  // namespace
}  // namespace unisono::tcp
