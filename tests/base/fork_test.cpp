#include "base/fork.hpp"

#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <memory>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::runInChild;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

bool isOpen(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

UniqueFd openNull() {
  return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
}

struct Pipe {
  UniqueFd readEnd;
  UniqueFd writeEnd;
};

Pipe makePipe() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST(ForkGenerationTest, DiffersInAChildAndAgainInItsChild) {
  const std::uint32_t here = forkGeneration();

  EXPECT_EQ(runInChild([&] {
              const std::uint32_t child = forkGeneration();
              return child == here + 1 &&
                     runInChild([&] { return forkGeneration() == child + 1; }) == 0;
            }),
            0);
  EXPECT_EQ(forkGeneration(), here);
}

TEST(ForkGuardTest, LetsCallsThroughWhereItWasMade) {
  const ForkGuard guard;

  EXPECT_FALSE(guard.inChild());
  EXPECT_NO_THROW(guard.check("TCPStore"));
  EXPECT_EQ(runInChild([] { return !ForkGuard().inChild(); }), 0) << "one made by the child";
}

TEST(ForkGuardTest, RefusesInAChildNamingTheSubject) {
  const ForkGuard guard;

  EXPECT_EQ(runInChild([&] {
              EXPECT_TRUE(guard.inChild());
              EXPECT_THAT(
                  [&] { guard.check("TCPStore"); },
                  ThrowsMessage<UsageError>(AllOf(HasSubstr("TCPStore"), HasSubstr("[FORKED]"))));
              return true;
            }),
            0);
  EXPECT_NO_THROW(guard.check("TCPStore"));
}

TEST(UniqueFdTest, ClosesWhatItHolds) {
  int fd = -1;
  {
    const UniqueFd owner = openNull();
    fd = owner.get();
    EXPECT_TRUE(owner.valid());
    EXPECT_TRUE(isOpen(fd));
  }
  EXPECT_FALSE(isOpen(fd));
}

TEST(UniqueFdTest, HoldsNothingByDefault) {
  UniqueFd none;

  EXPECT_FALSE(none.valid());
  EXPECT_FALSE(UniqueFd(-1).valid());
  EXPECT_EQ(none.release(), -1);
  none.reset();
}

TEST(UniqueFdTest, HandsOverWhenMoved) {
  UniqueFd first = openNull();
  const int fd = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT: looking at what the move left is the point
  EXPECT_EQ(second.get(), fd);

  UniqueFd third = openNull();
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(isOpen(replaced));
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(isOpen(fd));
}

TEST(UniqueFdTest, SurvivesAMoveToItself) {
  UniqueFd fd = openNull();
  UniqueFd& alias = fd;

  fd = std::move(alias);

  EXPECT_TRUE(fd.valid());
  EXPECT_TRUE(isOpen(fd.get()));
}

TEST(UniqueFdTest, IsNoLongerOursOnceReleased) {
  const int fd = openNull().release();

  EXPECT_TRUE(isOpen(fd));
  EXPECT_EQ(runInChild([&] { return isOpen(fd); }), 0);
  ::close(fd);
}

TEST(UniqueFdTest, IsClosedInAChildAndStaysOpenInTheParent) {
  const Pipe pipe = makePipe();

  EXPECT_EQ(runInChild([&] { return !isOpen(pipe.readEnd.get()) && !isOpen(pipe.writeEnd.get()); }),
            0);

  ASSERT_EQ(::write(pipe.writeEnd.get(), "x", 1), 1);
  char got = 0;
  EXPECT_EQ(::read(pipe.readEnd.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

TEST(UniqueFdTest, IsClosedInAChildWhoeverItWasMovedTo) {
  UniqueFd first = openNull();
  const UniqueFd second = std::move(first);

  EXPECT_EQ(runInChild([&] { return !isOpen(second.get()); }), 0);
}

TEST(UniqueFdTest, DoesNotCloseANumberThatTheChildUsesAnew) {
  auto inherited = std::make_unique<UniqueFd>(openNull());
  auto assigned = std::make_unique<UniqueFd>(openNull());

  EXPECT_EQ(runInChild([&] {
              const int first = inherited->get();
              const int second = assigned->get();
              EXPECT_EQ(::dup2(STDERR_FILENO, first), first);
              EXPECT_EQ(::dup2(STDERR_FILENO, second), second);
              inherited.reset();
              *assigned = UniqueFd();
              return isOpen(first) && isOpen(second);
            }),
            0);
}

TEST(UniqueFdTest, IsTheChildsOwnWhenMadeThere) {
  UniqueFd inherited = openNull();

  EXPECT_EQ(runInChild([&] {
              inherited = openNull();
              const int fd = inherited.get();
              EXPECT_TRUE(isOpen(fd));
              EXPECT_EQ(runInChild([&] { return !isOpen(fd); }), 0) << "the grandchild";
              inherited.reset();
              return !isOpen(fd);
            }),
            0);
}

TEST(UniqueFdTest, GivesNothingAwayInAChild) {
  UniqueFd inherited = openNull();

  EXPECT_EQ(runInChild([&] {
              const int number = inherited.get();
              const UniqueFd anew(::dup2(STDERR_FILENO, number));  // the child's own, same number
              EXPECT_EQ(inherited.release(), -1);
              EXPECT_EQ(runInChild([&] { return !isOpen(number); }), 0)
                  << "the child's descriptor is still closed in its children";
              return isOpen(number);
            }),
            0);
}

TEST(ForkTest, LetsPeersSeeTheEndOfTheParentWhileAChildLives) {
  Pipe pipe = makePipe();
  const int readEnd = pipe.readEnd.get();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::pause();
    ::_exit(0);
  }

  pipe.writeEnd.reset();
  pollfd entry{.fd = readEnd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
  EXPECT_TRUE(entry.revents & POLLHUP);

  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(RememberFdTest, TakesNumbersOutsideTheTableAsNothing) {
  for (const int fd : {-1, 1 << 20, std::numeric_limits<int>::max()}) {
    rememberFd(fd);
    forgetFd(fd);
  }
  EXPECT_EQ(runInChild([] { return true; }), 0);
}

}  // namespace
}  // namespace unisono
