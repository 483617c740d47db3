#include "net/local_socket.hpp"

#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.hpp"
#include "net/net_support.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;

struct Pair {
  LocalSocket caller;
  LocalSocket server;
};

Pair connected(LocalListener& listener) {
  Result<LocalSocket> caller = LocalSocket::connect(listener.name(), Deadline::after(5s));
  EXPECT_TRUE(caller.isOk());
  std::optional<LocalSocket> server;
  EXPECT_TRUE(test::eventually([&] { return (server = listener.accept()).has_value(); }));
  return {std::move(caller.value()), std::move(*server)};
}

TEST(LocalSocketTest, CarriesMessagesAndDescriptors) {
  LocalListener listener;
  Pair pair = connected(listener);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);

  EXPECT_TRUE(pair.caller.send("take this", writing.get(), Deadline::after(5s)).isOk());
  EXPECT_TRUE(pair.caller.send("and that", -1, Deadline::after(5s)).isOk());
  Result<LocalMessage> first = pair.server.receive(Deadline::after(5s));
  Result<LocalMessage> second = pair.server.receive(Deadline::after(5s));

  ASSERT_TRUE(first.isOk() && second.isOk());
  EXPECT_EQ(first.value().bytes, "take this");
  EXPECT_EQ(second.value().bytes, "and that");
  EXPECT_FALSE(second.value().fd.valid());
  writing.reset();
  EXPECT_EQ(::write(first.value().fd.get(), "x", 1), 1);
  EXPECT_NE(::fcntl(first.value().fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

/// While it lives this process can have no more descriptors.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit full{.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &full);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(LocalSocketTest, TellsThatThereIsNoDescriptorForACaller) {
  LocalListener listener;
  const Result<LocalSocket> caller = LocalSocket::connect(listener.name(), Deadline::after(5s));
  ASSERT_TRUE(caller.isOk());
  {
    const NoDescriptors now;
    EXPECT_FALSE(listener.accept());
    EXPECT_TRUE(listener.isStarved());
    EXPECT_EQ(LocalSocket::connect(listener.name(), Deadline::after(5s)).failure().reason(),
              Reason::RESOURCE);
  }
  EXPECT_TRUE(listener.accept());
  EXPECT_FALSE(listener.isStarved());
  EXPECT_FALSE(listener.accept());
  EXPECT_FALSE(listener.isStarved()) << "nobody is waiting";
}

TEST(LocalSocketTest, TellsThatThereIsNoDescriptorForOneThatWasSent) {
  LocalListener listener;
  Pair pair = connected(listener);
  ASSERT_TRUE(pair.caller.send("take this", listener.fd(), Deadline::after(5s)).isOk());
  const NoDescriptors now;

  EXPECT_EQ(pair.server.receive(Deadline::after(5s)).failure().reason(), Reason::RESOURCE);
}

TEST(LocalSocketTest, KnowsWhoIsThere) {
  LocalListener listener;
  const Pair pair = connected(listener);
  EXPECT_EQ(pair.server.peerPid(), ::getpid());
}

TEST(LocalSocketTest, ANameThatNobodyListensAtIsRefused) {
  const Result<LocalSocket> nobody = LocalSocket::connect("unisono/nobody", Deadline::after(5s));
  ASSERT_FALSE(nobody.isOk());
  EXPECT_EQ(nobody.failure().reason(), Reason::PEER_UNREACHABLE);
}

TEST(LocalSocketTest, AReceiverLearnsThatTheOtherEndIsClosedOrSilent) {
  LocalListener listener;
  Pair pair = connected(listener);
  EXPECT_EQ(pair.server.receive(Deadline::after(20ms)).failure().reason(),
            Reason::PEER_UNREACHABLE);

  pair.caller = LocalSocket();
  EXPECT_EQ(pair.server.receive(Deadline::after(5s)).failure().reason(), Reason::PEER_LEFT);
}

// The receiver looks without pause, so that the end often comes right between two of its looks. On
// a busy machine a round takes a turn of the scheduler, so there are fewer.
TEST(LocalSocketTest, WhatWasSentJustBeforeTheEndArrives) {
  LocalListener listener;
  const Deadline enough = Deadline::after(3s);
  for (int round = 0; round < 5000 && !enough.expired(); ++round) {
    Pair pair = connected(listener);
    Thread sender("last-words", [&pair] {
      EXPECT_TRUE(pair.server.send("last words", -1, Deadline::after(5s)).isOk());
      pair.server = LocalSocket();
    });
    Result<LocalMessage> heard = Status(Reason::PEER_UNREACHABLE, "");
    while (!heard.isOk() && heard.failure().reason() == Reason::PEER_UNREACHABLE) {
      heard = pair.caller.receive(Deadline::after(0ms));
    }
    sender.join();
    ASSERT_TRUE(heard.isOk()) << heard.failure().text() << ", in round " << round;
  }
}

TEST(LocalSocketTest, MessagesThatAreTooLongOrBringTooMuchAreRefused) {
  LocalListener listener;
  Pair pair = connected(listener);
  const std::string huge(kLongestLocalMessage + 1, 'x');
  ASSERT_GT(::send(pair.caller.fd(), huge.data(), huge.size(), MSG_NOSIGNAL), 0);
  EXPECT_EQ(pair.server.receive(Deadline::after(5s)).failure().reason(), Reason::PROTOCOL);

  alignas(cmsghdr) char space[CMSG_SPACE(3 * sizeof(int))] = {};
  char byte = 'x';
  iovec data{.iov_base = &byte, .iov_len = 1};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = space;
  header.msg_controllen = sizeof space;
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(3 * sizeof(int));
  const int three[3] = {0, 1, 2};
  std::memcpy(CMSG_DATA(part), three, sizeof three);
  ASSERT_GT(::sendmsg(pair.caller.fd(), &header, MSG_NOSIGNAL), 0);
  EXPECT_EQ(pair.server.receive(Deadline::after(5s)).failure().reason(), Reason::PROTOCOL);
}

}  // namespace
}  // namespace unisono
