// Whoever else connects to the port for ranks of other hosts: it is kept out, and costs nobody
// anything.
#include "transport/mesh/harbour.hpp"

#include <filesystem>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/wait.hpp"
#include "net/connect.hpp"
#include "net/handshake.hpp"
#include "support/support.hpp"

namespace unisono::mesh {
namespace {

using test::LogCapture;
using ::testing::Contains;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::string_view kId = "0123456789abcdef";

class CountingDock final : public Dock {
 public:
  void arrive(const Note& note, UniqueFd connection) noexcept override {
    const MutexLock lock(mutex_);
    notes_.push_back(note);
    connections_.push_back(std::move(connection));
  }
  Report report() const override { return {.state = state, .seq = 41}; }
  std::size_t count() {
    const MutexLock lock(mutex_);
    return notes_.size();
  }

  std::atomic<Report::State> state{Report::State::LIVE};

 private:
  Mutex mutex_;
  std::vector<Note> notes_ UNISONO_GUARDED_BY(mutex_);
  std::vector<UniqueFd> connections_ UNISONO_GUARDED_BY(mutex_);
};

class HarbourTest : public ::testing::Test {
 protected:
  Socket connect() const { return connectTo("127.0.0.1", port_, Deadline::after(20s), 20s); }
  /// What the harbour sends until it closes the connection, or `most` bytes.
  static std::string receive(Socket& socket, std::size_t most) {
    std::string bytes(most, '\0');
    const IoResult result = socket.recvExact(bytes.data(), most, Deadline::after(20s));
    bytes.resize(result.bytes);
    return bytes;
  }
  static bool isClosed(Socket& socket) {
    char byte = 0;
    const IoResult result = socket.recvSome(&byte, 1, Deadline::after(20s));
    return result.outcome == IoOutcome::CLOSED || result.outcome == IoOutcome::FAILED;
  }
  static bool isOpen(const Socket& socket) {
    pollfd each{.fd = socket.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&each, 1, 0) == 0;
  }
  std::string noteTo(std::uint32_t rank, Purpose purpose = Purpose::LINK) const {
    return Note{.from = 1, .to = rank, .purpose = purpose}.encode();
  }

  const Key key_ = deriveKey("of this test", "mesh");
  CountingDock dock_;
  const std::uint16_t port_ = Harbour::instance().listenAt(SocketAddress::loopback(AF_INET, 0));
  Harbour::Berth berth_ =
      Harbour::instance().moor({.id = std::string(kId), .rank = 0}, key_, dock_);
};

TEST_F(HarbourTest, LetsInWhoKnowsTheKey) {
  Socket socket = connect();
  const HandshakeConnector handshake(key_, kId, noteTo(0));
  ASSERT_TRUE(socket.sendAll(handshake.hello(), Deadline::after(20s)).isDone());
  const auto proof = handshake.prove(receive(socket, kChallengeSize));
  ASSERT_TRUE(proof);
  ASSERT_TRUE(socket.sendAll(*proof, Deadline::after(20s)).isDone());
  EXPECT_EQ(receive(socket, 1), std::string(1, kWelcome));
  TimerWaitable timer(1ms);
  EXPECT_TRUE(waitUntil([&] { return dock_.count() == 1; },
                        {.deadline = Deadline::after(20s), .subject = {}}, timer));
}

TEST_F(HarbourTest, TellsHowARankIsEvenAfterItHasGone) {
  for (const auto state : {Report::State::LIVE, Report::State::LEFT}) {
    if (state == Report::State::LEFT) {
      berth_.leave();
    }
    Socket socket = connect();
    const HandshakeConnector handshake(key_, kId, noteTo(0, Purpose::ASK));
    ASSERT_TRUE(socket.sendAll(handshake.hello(), Deadline::after(20s)).isDone());
    const auto proof = handshake.prove(receive(socket, kChallengeSize));
    ASSERT_TRUE(proof && socket.sendAll(*proof, Deadline::after(20s)).isDone());
    const std::string answer = receive(socket, 1000);
    ASSERT_GT(answer.size(), 9U);
    EXPECT_EQ(answer[0], state == Report::State::LIVE ? kWelcome : kGone);
    const auto report = Report::decode(std::string_view(answer).substr(9));
    ASSERT_TRUE(report);
    EXPECT_EQ(report->state, state);
    EXPECT_EQ(report->seq, 41U);
  }
}

TEST_F(HarbourTest, SendsStrangersAway) {
  LogCapture log;
  const HandshakeConnector wrongKey(deriveKey("another", "mesh"), kId, noteTo(0));
  const HandshakeConnector wrongGroup(key_, "fedcba9876543210", noteTo(0));
  const HandshakeConnector wrongRank(key_, kId, noteTo(7));
  const std::string browser =
      "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody's browser, and more of it\r\n\r\n";
  for (const std::string& words :
       {browser, std::string(200, '\xff'), wrongGroup.hello(), wrongRank.hello()}) {
    Socket socket = connect();
    ASSERT_TRUE(socket.sendAll(words, Deadline::after(20s)).isDone());
    EXPECT_TRUE(isClosed(socket));
  }
  for (int attempt = 0; attempt < 3; ++attempt) {
    Socket socket = connect();
    ASSERT_TRUE(socket.sendAll(wrongKey.hello(), Deadline::after(20s)).isDone());
    EXPECT_FALSE(wrongKey.prove(receive(socket, kChallengeSize)));
    ASSERT_TRUE(socket.sendAll(std::string(kProofSize, 'p'), Deadline::after(20s)).isDone());
    EXPECT_TRUE(isClosed(socket));
  }
  EXPECT_EQ(dock_.count(), 0U);
  EXPECT_THAT(log.lines(), Contains(HasSubstr("AUTH_FAILED")).Times(1)) << "and does not fill it";
}

TEST_F(HarbourTest, TakesHellosInPieces) {
  Socket socket = connect();
  const HandshakeConnector handshake(key_, kId, noteTo(0));
  for (const char byte : handshake.hello()) {
    ASSERT_TRUE(socket.sendAll({&byte, 1}, Deadline::after(20s)).isDone());
  }
  EXPECT_TRUE(handshake.prove(receive(socket, kChallengeSize)));
}

TEST_F(HarbourTest, IsNotHeldUpByThoseWhoSayNothing) {
  std::vector<Socket> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(connect());
  }
  Socket socket = connect();
  const HandshakeConnector handshake(key_, kId, noteTo(0));
  ASSERT_TRUE(socket.sendAll(handshake.hello(), Deadline::after(20s)).isDone());
  EXPECT_TRUE(handshake.prove(receive(socket, kChallengeSize)));
}

TEST_F(HarbourTest, WhatWasOverheardLetsNobodyIn) {
  const HandshakeConnector handshake(key_, kId, noteTo(0));
  std::string proof;
  {
    Socket socket = connect();
    ASSERT_TRUE(socket.sendAll(handshake.hello(), Deadline::after(20s)).isDone());
    proof = handshake.prove(receive(socket, kChallengeSize)).value();
    ASSERT_TRUE(socket.sendAll(proof, Deadline::after(20s)).isDone());
    EXPECT_EQ(receive(socket, 1), std::string(1, kWelcome));
  }
  LogCapture log;
  Socket replay = connect();
  ASSERT_TRUE(replay.sendAll(handshake.hello() + proof, Deadline::after(20s)).isDone());
  EXPECT_EQ(receive(replay, kChallengeSize).size(), kChallengeSize);
  EXPECT_TRUE(isClosed(replay));
  EXPECT_EQ(dock_.count(), 1U);
  EXPECT_THAT(log.lines(), Contains(HasSubstr("AUTH_FAILED")));
}

TEST_F(HarbourTest, WhoBreaksOffIsForgotten) {
  const HandshakeConnector handshake(key_, kId, noteTo(0));
  const std::string& hello = handshake.hello();
  for (std::size_t said = 0; said < hello.size(); ++said) {
    Socket socket = connect();
    ASSERT_TRUE(socket.sendAll(hello.substr(0, said), Deadline::after(20s)).isDone());
    ASSERT_EQ(::shutdown(socket.fd(), SHUT_WR), 0);
    EXPECT_TRUE(isClosed(socket)) << said << " bytes of the hello";
  }
  for (std::size_t proven = 0; proven < kProofSize; ++proven) {
    Socket socket = connect();
    ASSERT_TRUE(socket.sendAll(hello, Deadline::after(20s)).isDone());
    const std::string proof = handshake.prove(receive(socket, kChallengeSize)).value();
    ASSERT_TRUE(socket.sendAll(proof.substr(0, proven), Deadline::after(20s)).isDone());
    ASSERT_EQ(::shutdown(socket.fd(), SHUT_WR), 0);
    EXPECT_TRUE(isClosed(socket)) << proven << " bytes of the proof";
  }
  EXPECT_EQ(dock_.count(), 0U);
}

TEST_F(HarbourTest, WhoTakesTooLongIsSentAway) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  const HandshakeConnector handshake(key_, kId, noteTo(0));
  {
    Socket silent = connect();
    Socket slow = connect();
    Socket unproven = connect();
    ASSERT_TRUE(slow.sendAll(handshake.hello().substr(0, 5), Deadline::after(20s)).isDone());
    ASSERT_TRUE(unproven.sendAll(handshake.hello(), Deadline::after(20s)).isDone());
    EXPECT_EQ(receive(unproven, kChallengeSize).size(), kChallengeSize);
    for (Socket* each : {&silent, &slow, &unproven}) {
      EXPECT_TRUE(isClosed(*each));
    }
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(dock_.count(), 0U);
}

TEST_F(HarbourTest, OfTooManyWhoSayNothingTheFirstGo) {
  constexpr std::size_t kMost = 1024;  // docs/wire/tcp_link.md
  std::vector<Socket> silent;
  for (std::size_t i = 0; i < kMost; ++i) {
    silent.push_back(connect());
  }
  Socket socket = connect();
  const HandshakeConnector handshake(key_, kId, noteTo(0));
  ASSERT_TRUE(socket.sendAll(handshake.hello(), Deadline::after(20s)).isDone());
  EXPECT_TRUE(handshake.prove(receive(socket, kChallengeSize)));
  EXPECT_TRUE(isClosed(silent.front()));
  EXPECT_TRUE(isOpen(silent[1]) && isOpen(silent.back()));
}

}  // namespace
}  // namespace unisono::mesh
