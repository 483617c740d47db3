#include <algorithm>
#include <atomic>
#include <filesystem>
#include <gmock/gmock.h>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/thread.hpp"
#include "net/net_support.hpp"
#include "net/reactor.hpp"
#include "net/reactor_fixture.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::Does;
using test::kindName;
using test::kReactorKinds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// What reactors promise about their loop: posted functions, ticks, stopping, forking.
class ReactorLoopTest : public test::ReactorFixture {};

TEST_P(ReactorLoopTest, RunsWhatIsPostedFromManyThreadsInOrderOnTheLoop) {
  constexpr int kThreads = 8;
  constexpr int kEach = 1000;
  std::vector<std::vector<int>> seen(kThreads);
  std::set<std::thread::id> ranOn;
  std::thread::id loopId;
  int done = 0;
  {
    const Thread loop("loop", [&] {
      loopId = std::this_thread::get_id();
      loop_.run();
    });
    std::vector<std::unique_ptr<Thread>> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.push_back(std::make_unique<Thread>("poster", [&, thread] {
        for (int i = 0; i < kEach; ++i) {
          loop_.post([&, thread, i] {
            seen[static_cast<std::size_t>(thread)].push_back(i);
            ranOn.insert(std::this_thread::get_id());
            if (++done == kThreads * kEach) {
              loop_.stop();
            }
          });
        }
      }));
    }
  }

  EXPECT_EQ(done, kThreads * kEach);
  EXPECT_THAT(ranOn, ElementsAre(loopId));
  for (const std::vector<int>& order : seen) {
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_P(ReactorLoopTest, RunsWhatWasPostedBeforeStop) {
  int ran = 0;
  loop_.post([&] { ++ran; });
  loop_.post([&] { ++ran; });
  loop_.stop();

  loop_.run();

  EXPECT_EQ(ran, 2);
}

TEST_P(ReactorLoopTest, DestroysWithoutRunningWhatWasPostedAfterStop) {
  const auto alive = std::make_shared<int>(0);
  loop_.stop();
  loop_.run();
  loop_.post([alive] { FAIL() << "ran"; });
  EXPECT_EQ(alive.use_count(), 2);

  owner_.reset();

  EXPECT_EQ(alive.use_count(), 1);
}

TEST_P(ReactorLoopTest, IsWokenByStopFromAnotherThread) {
  std::atomic<bool> running{false};
  Thread loop("loop", [&] { loop_.run(); });
  loop_.post([&] { running = true; });
  ASSERT_TRUE(test::eventually([&] { return running.load(); }));

  loop_.stop();
  loop.join();
}

TEST_P(ReactorLoopTest, TicksAgainAndAgain) {
  int ticks = 0;
  const TimePoint start = systemClock().now();
  startTicks(Milliseconds(10), [&] {
    if (++ticks == 5) {
      loop_.stop();
    }
  });

  loop_.run();

  EXPECT_EQ(ticks, 5);
  EXPECT_GE(elapsedSince(start), Milliseconds(40));
}

TEST_P(ReactorLoopTest, TicksEvenWhenADescriptorIsAlwaysReady) {
  auto pair = test::socketPair();
  Does watcher([](bool, bool) {});
  watch(pair.near.fd(), {.write = true}, watcher);
  int ticks = 0;
  startTicks(Milliseconds(5), [&] {
    if (++ticks == 3) {
      loop_.stop();
    }
  });

  loop_.run();

  EXPECT_EQ(ticks, 3);
}

TEST_P(ReactorLoopTest, EndsATurnAfterAllThatWasReadyInIt) {
  auto one = test::socketPair();
  auto two = test::socketPair();
  std::string events;
  Does first([&](bool, bool) { events += 'r'; });
  Does second([&](bool, bool) { events += 'r'; });
  watch(one.near.fd(), {.write = true}, first);
  watch(two.near.fd(), {.write = true}, second);
  atTurnEnd([&] {
    events += '.';
    if (events.size() >= 9) {
      loop_.stop();
    }
  });

  loop_.run();

  EXPECT_THAT(events, StartsWith("rr.rr.rr."));
}

TEST_P(ReactorLoopTest, EndsATurnInWhichSomethingWasPosted) {
  std::string events;
  loop_.post([&] {
    events += 'p';
    loop_.stop();
  });
  atTurnEnd([&] { events += '.'; });

  loop_.run();

  EXPECT_THAT(events, StartsWith("p."));
}

TEST_P(ReactorLoopTest, SurvivesTasksAndTicksThatThrow) {
  const test::LogCapture log;
  loop_.post([] { throw std::runtime_error("task trouble"); });
  std::size_t ticks = 0;
  startTicks(Milliseconds(1), [&] {
    if (++ticks == 2) {
      loop_.stop();
    }
    throw std::runtime_error("tick trouble");
  });

  loop_.run();

  // In any order: the first tick may be due before the loop comes to its tasks, and another one
  // before it comes to its end.
  EXPECT_GE(ticks, 2U);
  EXPECT_THAT(log.lines(), Contains(HasSubstr("task trouble")).Times(1));
  EXPECT_THAT(log.lines(), Contains(HasSubstr("tick trouble")).Times(ticks));
  EXPECT_THAT(log.lines(), SizeIs(1 + ticks));
}

TEST_P(ReactorLoopTest, MayBeDestroyedWhileItWatches) {
  auto pair = test::socketPair();
  Does watcher([](bool, bool) {});
  watch(pair.near.fd(), {.read = true, .write = true}, watcher);

  owner_.reset();

  EXPECT_TRUE(pair.near.sendAll("still ours", test::soon()).isDone());
}

/// How many descriptors of this process are loops or wake-ups.
int loopDescriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string link = std::filesystem::read_symlink(entry.path(), ignored);
    count += link.find("[eventpoll]") != std::string::npos ||
             link.find("[eventfd]") != std::string::npos;
  }
  return count;
}

TEST_P(ReactorLoopTest, ClosesItsDescriptorsInForkedChildren) {
  ASSERT_GE(loopDescriptors(), 1);

  EXPECT_EQ(test::runInChild([] { return loopDescriptors() == 0; }), 0);
}

TEST_P(ReactorLoopTest, IsInertInForkedChildrenWhileTheParentGoesOn) {
  auto pair = test::socketPair();
  Does watcher([&](bool, bool) {
    unwatch(pair.near.fd());
    loop_.stop();
  });
  watch(pair.near.fd(), {.read = true}, watcher);
  const auto inChild = [&] {
    loop_.post([] {});
    loop_.stop();
    owner_.reset();
    // What the child opens now may get the numbers of what was closed: nothing may touch it.
    const auto [mine, yours] = test::socketPair();
    const auto fresh = GetParam().make();
    fresh->post([&fresh] { fresh->stop(); });
    fresh->run();
    return mine.valid();
  };

  EXPECT_EQ(test::runInChild(inChild), 0);
  ASSERT_TRUE(pair.far.sendAll("x", test::soon()).isDone());
  loop_.run();
}

TEST_P(ReactorLoopTest, SaysWhenThereAreNoDescriptorsForIt) {
  const int status = test::runInChild([] {
    // UBSan's first look at a type needs a descriptor: let it see the error while there are some.
    EXPECT_THROW(throw DistError({.what = "only a test"}), DistError);
    const rlimit none{.rlim_cur = 3, .rlim_max = 3};
    ::setrlimit(RLIMIT_NOFILE, &none);
    try {
      GetParam().make();
    } catch (const DistError& error) {
      return error.reason() == Reason::RESOURCE;
    }
    return false;
  });

  EXPECT_EQ(status, 0);
}

TEST_P(ReactorLoopTest, ComesAndGoesInAProcessWithoutStandardStreams) {
  const int status = test::runInChild([] {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::close(fd);
    }
    const auto loop = GetParam().make();
    loop->post([&loop] { loop->stop(); });
    loop->run();
    return true;
  });

  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReactorLoopTest, ::testing::ValuesIn(kReactorKinds), kindName);

}  // namespace
}  // namespace unisono
