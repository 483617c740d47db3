#include "net/accept.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/net_support.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

Socket dial(const Listener& listener) {
  return connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(0));
}

/// Uses up all descriptors that this process may still have.
std::vector<UniqueFd> takeAllDescriptors() {
  const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<UniqueFd> taken;
  for (;;) {
    UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!next.valid()) {
      return taken;
    }
    taken.push_back(std::move(next));
  }
}

TEST(AcceptTest, GivesConnectionsReadyForALoopUntilThereAreNone) {
  const Listener listener = test::listenOn("127.0.0.1");
  const int fd = listener.fds().front();
  const Socket first = dial(listener);
  const Socket second = dial(listener);

  const AcceptResult got = acceptOne(fd);
  const AcceptResult gotToo = acceptOne(fd);
  const AcceptResult none = acceptOne(fd);

  ASSERT_EQ(got.status, AcceptStatus::GOT);
  EXPECT_EQ(got.peer, first.localAddress());
  EXPECT_NE(::fcntl(got.fd.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(got.fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(gotToo.peer, second.localAddress());
  EXPECT_EQ(none.status, AcceptStatus::NOTHING);
  EXPECT_FALSE(none.fd.valid());
}

TEST(AcceptTest, TellsABrokenListenerFromABrokenConnection) {
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd notListening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

  EXPECT_EQ(acceptOne(-1).status, AcceptStatus::FAILED);
  EXPECT_EQ(acceptOne(file.get()).status, AcceptStatus::FAILED);
  EXPECT_EQ(acceptOne(notListening.get()).status, AcceptStatus::FAILED);
  EXPECT_EQ(acceptOne(-1).error, EBADF);
}

TEST(AcceptTest, ShedsConnectionsWhenThereAreNoDescriptors) {
  const int status = test::runInChild([] {
    const Listener listener = test::listenOn("127.0.0.1");
    const int fd = listener.fds().front();
    ReserveFd reserve;
    Socket clients[] = {dial(listener), dial(listener)};
    std::vector<UniqueFd> taken = takeAllDescriptors();

    bool good = acceptOne(fd).status == AcceptStatus::EXHAUSTED && acceptOne(fd).error == EMFILE;
    good = good && reserve.shed(fd) && reserve.shed(fd) && !reserve.shed(fd);
    taken.clear();
    for (Socket& client : clients) {
      char byte = 0;
      good = good && client.recvExact(&byte, 1, test::soon()).outcome == IoOutcome::CLOSED;
    }
    return good;
  });

  EXPECT_EQ(status, 0);
}

TEST(AcceptTest, AcceptsAgainWhenDescriptorsAreFree) {
  const int status = test::runInChild([] {
    const Listener listener = test::listenOn("127.0.0.1");
    const Socket client = dial(listener);
    std::vector<UniqueFd> taken = takeAllDescriptors();
    const bool exhausted = acceptOne(listener.fds().front()).status == AcceptStatus::EXHAUSTED;
    taken.clear();
    return exhausted && acceptOne(listener.fds().front()).status == AcceptStatus::GOT;
  });

  EXPECT_EQ(status, 0);
}

TEST(AcceptTest, RaisesTheLimitOnDescriptorsAsFarAsAllowed) {
  const int status = test::runInChild([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max / 2;
    ::setrlimit(RLIMIT_NOFILE, &limit);

    raiseDescriptorLimit();

    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur == limit.rlim_max;
  });

  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace unisono
