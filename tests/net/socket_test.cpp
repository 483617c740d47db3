#include "net/socket.hpp"

#include <atomic>
#include <csignal>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "unisono/base/error.hpp"

#include "base/thread.hpp"
#include "net/net_support.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(fd, level, name, &value, &size);
  return value;
}

/// Bytes that differ from place to place.
std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 31 + i / 251);
  }
  return bytes;
}

/// Interrupts this thread every millisecond with a signal that does nothing.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action {};
    action.sa_handler = [](int) { count_.fetch_add(1); };
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval every{.it_interval = {0, 1000}, .it_value = {0, 1000}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~SignalStorm() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  static int count() { return count_.load(); }

 private:
  static std::atomic<int> count_;
  struct sigaction before_ {};
};
std::atomic<int> SignalStorm::count_{0};

TEST(SocketTest, MovesAllBytesBothWays) {
  auto pair = test::socketPair();
  const std::string sent = pattern(3 << 20);
  std::string received(sent.size(), '\0');
  IoResult read;
  {
    const Thread thread("reader", [&] {
      read = pair.far.recvExact(received.data(), received.size(), test::soon());
    });
    EXPECT_TRUE(pair.near.sendAll(sent, test::soon()).isDone());
  }

  EXPECT_TRUE(read.isDone());
  EXPECT_EQ(read.bytes, sent.size());
  EXPECT_TRUE(received == sent);
}

TEST(SocketTest, ReceivesWhatIsThereWithoutWaitingForMore) {
  auto pair = test::socketPair();
  ASSERT_TRUE(pair.near.sendAll("abc", test::soon()).isDone());
  std::array<char, 16> data{};

  const IoResult some =
      pair.far.recvSome(data.data(), data.size(), Deadline::after(Milliseconds(0)));

  EXPECT_TRUE(some.isDone());
  EXPECT_EQ(std::string_view(data.data(), some.bytes), "abc");
}

TEST(SocketTest, GivesUpReceivingAtTheDeadlineAndSaysHowFarItCame) {
  auto pair = test::socketPair();
  ASSERT_TRUE(pair.near.sendAll("ab", test::soon()).isDone());
  std::array<char, 4> data{};
  const TimePoint start = systemClock().now();

  const IoResult read = pair.far.recvExact(data.data(), 4, Deadline::after(Milliseconds(80)));

  EXPECT_EQ(read.outcome, IoOutcome::TIMED_OUT);
  EXPECT_EQ(read.bytes, 2U);
  EXPECT_GE(elapsedSince(start), Milliseconds(80));
  EXPECT_LT(elapsedSince(start), Milliseconds(580));
}

TEST(SocketTest, GivesUpSendingAtTheDeadlineWhenNobodyReads) {
  auto pair = test::socketPair();
  const std::string much(4 << 20, 'x');

  const IoResult sent = pair.near.sendAll(much, Deadline::after(Milliseconds(80)));

  EXPECT_EQ(sent.outcome, IoOutcome::TIMED_OUT);
  EXPECT_GT(sent.bytes, 0U);
  EXPECT_LT(sent.bytes, much.size());
}

TEST(SocketTest, LooksOnceWhenTheDeadlineHasPassed) {
  auto pair = test::socketPair();
  std::array<char, 2> data{};

  EXPECT_EQ(pair.far.recvExact(data.data(), 2, Deadline::after(Milliseconds(0))).outcome,
            IoOutcome::TIMED_OUT);
  EXPECT_TRUE(pair.near.sendAll("ab", Deadline::after(Milliseconds(0))).isDone());
  EXPECT_TRUE(pair.far.recvExact(data.data(), 2, Deadline::after(Milliseconds(0))).isDone());
}

TEST(SocketTest, TellsAnOrderlyEndFromAFailure) {
  auto pair = test::socketPair();
  ASSERT_TRUE(pair.near.sendAll("a", test::soon()).isDone());
  pair.near = Socket();
  std::array<char, 2> data{};

  const IoResult end = pair.far.recvExact(data.data(), 2, test::soon());
  const IoResult broken = pair.far.sendAll("b", test::soon());

  EXPECT_EQ(end.outcome, IoOutcome::CLOSED);
  EXPECT_EQ(end.bytes, 1U);
  EXPECT_EQ(end.text(), "closed by the peer");
  EXPECT_EQ(broken.outcome, IoOutcome::FAILED);
  EXPECT_EQ(broken.error, EPIPE);  // and no signal killed this process
  EXPECT_THAT(broken.text(), HasSubstr("EPIPE"));
}

TEST(SocketTest, ReportsAResetByThePeer) {
  const Listener listener = test::listenOn("127.0.0.1");
  Socket socket = connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(0));
  AcceptResult accepted = acceptOne(listener.fds().front());
  ASSERT_EQ(accepted.status, AcceptStatus::GOT);
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(accepted.fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  accepted.fd.reset();
  char byte = 0;

  const IoResult read = socket.recvExact(&byte, 1, test::soon());

  EXPECT_EQ(read.outcome, IoOutcome::FAILED);
  EXPECT_EQ(read.text(), "Connection reset by peer (ECONNRESET)");
}

TEST(SocketTest, KnowsTheRoundTripBeforeThePeerHasDoneAnything) {
  const Listener listener = test::listenOn("127.0.0.1");
  const Socket socket = connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(0));

  EXPECT_GE(socket.roundTrip(), Milliseconds(1)) << "rounded up";
  EXPECT_LT(socket.roundTrip(), Milliseconds(1000));
  EXPECT_EQ(Socket().roundTrip(), Milliseconds(0));
}

TEST(SocketTest, IsWokenByShutdownFromAnotherThread) {
  auto pair = test::socketPair();
  std::atomic<int> tid{0};
  IoResult read;
  {
    const Thread thread("reader", [&] {
      tid = static_cast<int>(::syscall(SYS_gettid));
      char byte = 0;
      read = pair.near.recvExact(&byte, 1, Deadline::never());
    });
    ASSERT_TRUE(test::eventually([&] { return tid != 0 && test::isAsleep(tid); }));
    pair.near.shutdown();
  }

  EXPECT_EQ(read.outcome, IoOutcome::CLOSED);
}

TEST(SocketTest, IsWokenByShutdownWhileSending) {
  auto pair = test::socketPair();
  const std::string much(4 << 20, 'x');
  std::atomic<int> tid{0};
  IoResult sent;
  {
    const Thread thread("writer", [&] {
      tid = static_cast<int>(::syscall(SYS_gettid));
      sent = pair.near.sendAll(much, Deadline::never());
    });
    ASSERT_TRUE(test::eventually([&] { return tid != 0 && test::isAsleep(tid); }));
    pair.near.shutdown();
  }

  EXPECT_EQ(sent.outcome, IoOutcome::FAILED);
  EXPECT_EQ(sent.error, EPIPE);
}

TEST(SocketTest, MovesAllBytesThroughAStormOfSignals) {
  auto pair = test::socketPair();
  const std::string sent = pattern(8 << 20);
  std::string received(sent.size(), '\0');
  // The helper gives back what it gets, slowly enough that this thread waits on both ways.
  const Thread thread("echo", [&] {
    std::array<char, 65536> piece{};
    for (std::size_t done = 0; done < sent.size();) {
      const IoResult got = pair.far.recvSome(piece.data(), piece.size(), test::soon());
      ASSERT_TRUE(got.isDone());
      done += got.bytes;
    }
    ASSERT_TRUE(pair.far.sendAll(sent, test::soon()).isDone());
  });
  const SignalStorm storm;
  std::array<char, 1> nothing{};
  const TimePoint start = systemClock().now();

  const IoResult early = pair.near.recvSome(nothing.data(), 1, Deadline::after(Milliseconds(100)));
  EXPECT_EQ(early.outcome, IoOutcome::TIMED_OUT);
  EXPECT_GE(elapsedSince(start), Milliseconds(100));
  EXPECT_LT(elapsedSince(start), Milliseconds(600));
  EXPECT_TRUE(pair.near.sendAll(sent, test::soon()).isDone());
  EXPECT_TRUE(pair.near.recvExact(received.data(), received.size(), test::soon()).isDone());

  EXPECT_TRUE(received == sent);
  EXPECT_GT(SignalStorm::count(), 20);
}

TEST(SocketTest, IsInertInForkedChildren) {
  auto pair = test::socketPair();
  const int status = test::runInChild([&pair] {
    // The child's own descriptors may get the numbers of what was closed at the fork.
    auto own = test::socketPair();
    const IoResult sent = pair.near.sendAll("x", Deadline::after(Milliseconds(0)));
    pair.near.shutdown();
    pair.far.shutdown();
    char byte = 0;
    return sent.outcome == IoOutcome::FAILED && sent.error == EBADF &&
           own.near.sendAll("y", test::soon()).isDone() &&
           own.far.recvExact(&byte, 1, test::soon()).isDone() && byte == 'y';
  });

  EXPECT_EQ(status, 0);
  EXPECT_TRUE(pair.near.sendAll("x", test::soon()).isDone());
}

/// Two connected TCP sockets that give a silent host a second.
test::SocketPair tcpPair() {
  constexpr StreamOptions kOptions{.netDead = Milliseconds(1000)};
  const Listener listener = test::listenOn("127.0.0.1");
  Socket far = connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(20'000));
  AcceptResult accepted;
  EXPECT_TRUE(test::eventually([&] {
    accepted = acceptOne(listener.fds().front());
    return accepted.status == AcceptStatus::GOT;
  }));
  applyStreamOptions(accepted.fd.get(), kOptions);
  return {Socket(std::move(accepted.fd), kOptions.netDead), std::move(far)};
}

TEST(SocketTest, KeepsAPeerThatLivesButDoesNotRead) {
  auto pair = tcpPair();
  const IoResult sent =
      pair.near.sendAll(pattern(32 << 20), Deadline::after(std::chrono::seconds(3)));

  EXPECT_EQ(sent.outcome, IoOutcome::TIMED_OUT) << sent.text();
  EXPECT_FALSE(isPeerGone(pair.near.fd(), Milliseconds(1000)));
  std::string received(sent.bytes, '\0');
  EXPECT_TRUE(pair.far.recvExact(received.data(), received.size(), test::soon()).isDone());
}

TEST(SocketTest, FindsThatAPeerIsGoneWhileSomethingIsUnacknowledged) {
  auto pair = tcpPair();
  test::playDead(pair.far.fd());
  char byte = 0;

  ASSERT_TRUE(pair.near.sendAll("x", test::soon()).isDone());
  const IoResult got = pair.near.recvSome(&byte, 1, test::soon());

  EXPECT_EQ(got.outcome, IoOutcome::FAILED);
  EXPECT_EQ(got.error, ETIMEDOUT);
}

TEST(SocketTest, FindsThatAPeerIsGoneWhoseBuffersAreFull) {
  auto pair = tcpPair();
  const std::string much = pattern(32 << 20);
  const IoResult first = pair.near.sendAll(much, Deadline::after(Milliseconds(0)));
  ASSERT_EQ(first.outcome, IoOutcome::TIMED_OUT);
  test::playDead(pair.far.fd());

  const IoResult second = pair.near.sendAll(much, test::soon());

  EXPECT_EQ(second.outcome, IoOutcome::FAILED);
  EXPECT_EQ(second.error, ETIMEDOUT);
}

TEST(StreamOptionsTest, FindADeadPeerWithinTheGivenTime) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

  applyStreamOptions(fd.get(), {.netDead = Milliseconds(20000)});

  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(fd.get(), SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE), 4);
  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL), 4);
  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_KEEPCNT), 3);
  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}

TEST(StreamOptionsTest, NeverProbeMoreThanOnceASecond) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

  applyStreamOptions(fd.get(), {.netDead = Milliseconds(1000)});

  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE), 1);
}

TEST(StreamOptionsTest, LeaveTheKernelAloneWhenZero) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int idle = option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE);

  applyStreamOptions(fd.get(), {.netDead = Milliseconds(0)});

  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE), idle);
  EXPECT_EQ(option(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}

TEST(StreamOptionsTest, ComeFromTheEnvironment) {
  const test::ScopedEnv env("UNISONO_NET_DEAD_MS", "1500");

  EXPECT_EQ(StreamOptions::fromEnvironment().netDead, Milliseconds(1500));
}

TEST(StreamOptionsTest, RefuseImpossibleTimes) {
  for (const char* wrong : {"1", "999", "-5", "86400001"}) {
    const test::ScopedEnv env("UNISONO_NET_DEAD_MS", wrong);
    EXPECT_THAT([] { StreamOptions::fromEnvironment(); },
                ThrowsMessage<UsageError>(HasSubstr("UNISONO_NET_DEAD_MS")))
        << wrong;
  }
}

}  // namespace
}  // namespace unisono
