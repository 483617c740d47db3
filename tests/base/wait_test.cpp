#include "base/wait.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/fd.hpp"
#include "base/thread.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;  // NOLINT: in a test
using test::FakeClock;
using test::LogCapture;
using test::ScopedEnv;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

/// Sleeps by moving a FakeClock: the whole time asked for, at once.
class FakeSleep final : public Waitable {
 public:
  explicit FakeSleep(FakeClock& clock) : clock_(clock) {}
  void sleep(Milliseconds most) override {
    slept_.push_back(most);
    clock_.advance(most);
  }
  const std::vector<Milliseconds>& slept() const { return slept_; }

 private:
  FakeClock& clock_;
  std::vector<Milliseconds> slept_;
};

/// Sets the interrupt hook while it lives.
class ScopedHook {
 public:
  explicit ScopedHook(InterruptHook hook) { setInterruptHook(hook); }
  ~ScopedHook() { setInterruptHook(nullptr); }
  ScopedHook(const ScopedHook&) = delete;
  ScopedHook& operator=(const ScopedHook&) = delete;
};

/// Delivers SIGALRM every millisecond while it lives, to a handler that does nothing.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++delivered; };
    ::sigaction(SIGALRM, &action, &before_);  // without SA_RESTART: system calls are interrupted
    const itimerval everyMillisecond{.it_interval = {0, 1000}, .it_value = {0, 1000}};
    ::setitimer(ITIMER_REAL, &everyMillisecond, nullptr);
  }
  ~SignalStorm() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

  static inline std::atomic<int> delivered{0};

 private:
  struct sigaction before_ {};
};

constexpr auto kNo = [] { return false; };

/// Waits 100 ms in vain and expects that it took that long: not less, and not ten times more.
void expectUnhurriedWait(Waitable& on) {
  const TimePoint start = systemClock().now();

  EXPECT_FALSE(waitUntil(kNo, {.deadline = Deadline::after(100ms), .subject = {}}, on));

  EXPECT_GE(systemClock().now() - start, 100ms);
  EXPECT_LT(systemClock().now() - start, 1s);
}

TEST(WaitUntilTest, DoesNotSleepForWhatIsReady) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::after(1s, clock), .subject = {}, .clock = clock};

  EXPECT_TRUE(waitUntil([] { return true; }, context, sleep));
  EXPECT_THAT(sleep.slept(), IsEmpty());
}

TEST(WaitUntilTest, ReturnsAsSoonAsItIsReady) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::after(10s, clock), .subject = {}, .clock = clock};
  int looks = 0;

  EXPECT_TRUE(waitUntil([&] { return ++looks == 4; }, context, sleep));
  EXPECT_EQ(sleep.slept().size(), 3U);
}

TEST(WaitUntilTest, LooksAtLeastOnceWhenTheDeadlineIsNow) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::after(0ms, clock), .subject = {}, .clock = clock};

  EXPECT_TRUE(waitUntil([] { return true; }, context, sleep));
  EXPECT_FALSE(waitUntil(kNo, context, sleep));
  EXPECT_THAT(sleep.slept(), IsEmpty());
}

TEST(WaitUntilTest, LooksJustOnceWhenTheDeadlineIsNow) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::after(0ms, clock), .subject = {}, .clock = clock};
  int looks = 0;

  EXPECT_FALSE(waitUntil(
      [&] {
        ++looks;
        return false;
      },
      context, sleep));

  EXPECT_EQ(looks, 1);
}

TEST(WaitUntilTest, SleepsInSlicesThatEndAtTheDeadline) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{
      .deadline = Deadline::after(120ms, clock), .subject = {}, .clock = clock};

  EXPECT_FALSE(waitUntil(kNo, context, sleep));

  EXPECT_THAT(sleep.slept(), ElementsAre(50ms, 50ms, 20ms));
}

TEST(WaitUntilTest, SeesWhatBecomesReadyAtTheLastMoment) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const Deadline deadline = Deadline::after(120ms, clock);
  const WaitContext context{.deadline = deadline, .subject = {}, .clock = clock};

  EXPECT_TRUE(waitUntil([&] { return deadline.expired(clock); }, context, sleep));
}

TEST(WaitUntilTest, SeesWhatBecameReadyWhileItWasHeldUpPastTheDeadline) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{
      .deadline = Deadline::after(120ms, clock), .subject = {}, .clock = clock};
  int looks = 0;
  const auto slowLook = [&] {
    ++looks;
    clock.advance(looks == 2 ? Milliseconds(500) : Milliseconds(0));  // descheduled meanwhile
    return looks == 3;
  };

  EXPECT_TRUE(waitUntil(slowLook, context, sleep));
}

TEST(WaitUntilTest, WaitsOnAndOnWhenTheDeadlineIsNever) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::never(), .subject = {}, .clock = clock};
  const TimePoint later = clock.now() + 1h;

  EXPECT_TRUE(waitUntil([&] { return clock.now() >= later; }, context, sleep));
  EXPECT_THAT(sleep.slept(), Each(Le(50ms)));
}

TEST(WaitUntilTest, LetsWhatReadyThrowsThrough) {
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::never(), .subject = {}, .clock = clock};
  int looks = 0;
  const auto throws = [&]() -> bool {
    if (++looks == 3) {
      throw std::runtime_error("peer is gone");
    }
    return false;
  };

  EXPECT_THROW(waitUntil(throws, context, sleep), std::runtime_error);
}

TEST(HangNoticeTest, ComesOnceWithTheSubject) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "10");
  const LogCapture log;
  FakeClock clock;
  FakeSleep sleep(clock);
  const Deadline beforeNotice = Deadline::after(9999ms, clock);
  const WaitContext context{.deadline = Deadline::after(300s, clock),
                            .subject = [] { return "store key '/a' at 10.0.0.1:29500"; },
                            .clock = clock};
  bool early = false;

  EXPECT_FALSE(waitUntil(
      [&] {
        early = early || (!log.lines().empty() && !beforeNotice.expired(clock));
        return false;
      },
      context, sleep));

  EXPECT_FALSE(early);
  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr("waiting 10s"),
                                             HasSubstr("store key '/a' at 10.0.0.1:29500"),
                                             HasSubstr("giving up in 290s"))));
}

TEST(HangNoticeTest, HonoursFractionsOfASecond) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "0.25");
  const LogCapture log;
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{
      .deadline = Deadline::after(1s, clock), .subject = [] { return "rank 3"; }, .clock = clock};

  const TimePoint start = clock.now();

  EXPECT_TRUE(waitUntil([&] { return !log.lines().empty(); }, context, sleep));

  EXPECT_EQ(clock.now() - start, 250ms);
}

TEST(HangNoticeTest, SaysThatAWaitHasNoLimit) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "10");
  const LogCapture log;
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{
      .deadline = Deadline::never(), .subject = [] { return "rank 3"; }, .clock = clock};

  EXPECT_TRUE(waitUntil([&] { return !log.lines().empty(); }, context, sleep));

  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("go on without limit")));
}

TEST(HangNoticeTest, ComesAgainInTheNextWait) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "10");
  const LogCapture log;
  FakeClock clock;
  FakeSleep sleep(clock);
  for (int i = 0; i < 2; ++i) {
    const WaitContext context{.deadline = Deadline::after(30s, clock),
                              .subject = [] { return "rank 3"; },
                              .clock = clock};
    EXPECT_FALSE(waitUntil(kNo, context, sleep));
  }

  EXPECT_EQ(log.lines().size(), 2U);
}

TEST(HangNoticeTest, IsLeftOutWhenTurnedOff) {
  for (const char* off : {"0", "-1"}) {
    const ScopedEnv warn("UNISONO_HANG_WARN", off);
    const LogCapture log;
    FakeClock clock;
    FakeSleep sleep(clock);
    const WaitContext context{.deadline = Deadline::after(300s, clock),
                              .subject = [] { return "rank 3"; },
                              .clock = clock};

    EXPECT_FALSE(waitUntil(kNo, context, sleep));
    EXPECT_THAT(log.lines(), IsEmpty());
  }
}

TEST(HangNoticeTest, IsLeftOutWithoutASubject) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "10");
  const LogCapture log;
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{
      .deadline = Deadline::after(300s, clock), .subject = {}, .clock = clock};

  EXPECT_FALSE(waitUntil(kNo, context, sleep));

  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(HangNoticeTest, IsLeftOutWhenTheWaitEndsAnyway) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "10");
  const LogCapture log;
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{
      .deadline = Deadline::after(10s, clock), .subject = [] { return "rank 3"; }, .clock = clock};

  EXPECT_FALSE(waitUntil(kNo, context, sleep));

  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(HangNoticeTest, MayBePutOffForLongerThanTimeLasts) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "1e300");
  const LogCapture log;
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{
      .deadline = Deadline::after(300s, clock), .subject = [] { return "rank 3"; }, .clock = clock};

  EXPECT_FALSE(waitUntil(kNo, context, sleep));

  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(InterruptHookTest, ThrowsOutOfTheWait) {
  const ScopedHook hook([] { throw std::runtime_error("Ctrl-C"); });
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::never(), .subject = {}, .clock = clock};

  EXPECT_THROW(waitUntil(kNo, context, sleep), std::runtime_error);
  EXPECT_THROW(pauseFor(24h, {.deadline = Deadline::never(), .subject = {}}), std::runtime_error);
}

TEST(InterruptHookTest, IsAskedAtLeastEvery50Milliseconds) {
  static int asked;
  asked = 0;
  const ScopedHook hook([] { ++asked; });
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::after(10s, clock), .subject = {}, .clock = clock};

  EXPECT_FALSE(waitUntil(kNo, context, sleep));

  EXPECT_GE(asked, 200);
}

TEST(InterruptHookTest, IsNotAskedByACallThatDoesNotWait) {
  const ScopedHook hook([] { throw std::runtime_error("Ctrl-C"); });
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::after(0ms, clock), .subject = {}, .clock = clock};

  EXPECT_FALSE(waitUntil(kNo, context, sleep));
}

TEST(InterruptHookTest, IsNotAskedByAWaitThatMustNotEndEarly) {
  const ScopedHook hook([] { throw std::runtime_error("Ctrl-C"); });
  FakeClock clock;
  FakeSleep sleep(clock);
  const WaitContext context{.deadline = Deadline::after(10s, clock),
                            .subject = {},
                            .clock = clock,
                            .interruptible = false};

  EXPECT_FALSE(waitUntil(kNo, context, sleep));
}

/// What the hook below locks: a signal handler may call the very object that waits.
Mutex& calledByHook() {
  static Mutex mutex;
  return mutex;
}

TEST(InterruptHookTest, RunsWithoutTheLockOfTheWaiter) {
  static int asked;
  asked = 0;
  CondVar changed;
  const MutexLock lock(calledByHook());
  CondWaitable on(changed, calledByHook());
  const ScopedHook hook([] {
    const MutexLock again(calledByHook());
    if (++asked == 2) {
      throw std::runtime_error("Ctrl-C");
    }
  });

  // The lock is held again when the exception arrives, or its owner would unlock it twice.
  EXPECT_THROW(waitUntil(kNo, {.deadline = Deadline::never(), .subject = {}}, on),
               std::runtime_error);
  EXPECT_EQ(asked, 2);
}

TEST(HangNoticeTest, IsShownWithoutTheLockOfTheWaiter) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "0.001");
  Mutex mutex;
  CondVar changed;
  bool shown = false;
  setLogSink([&](LogLevel, std::string_view) {
    const MutexLock again(mutex);
    shown = true;
  });
  {
    const MutexLock lock(mutex);
    CondWaitable on(changed, mutex);
    EXPECT_TRUE(waitUntil([&] { return shown; },
                          {.deadline = Deadline::after(20s), .subject = [] { return "rank 3"; }},
                          on));
  }
  setLogSink({});
}

TEST(FdWaitableTest, WakesWhenTheDescriptorIsReady) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd readEnd(ends[0]);
  const UniqueFd writeEnd(ends[1]);
  FdWaitable on(readEnd.get(), POLLIN);
  const Thread writer("writer", [&] { EXPECT_EQ(::write(writeEnd.get(), "x", 1), 1); });

  on.sleep(24h);  // ends because of the byte: the test has no day to spare

  char got = 0;
  EXPECT_EQ(::read(readEnd.get(), &got, 1), 1);
}

TEST(FdWaitableTest, WakesWhenThePeerIsGone) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd readEnd(ends[0]);
  FdWaitable on(readEnd.get(), POLLIN);
  ::close(ends[1]);

  on.sleep(24h);
}

TEST(FdWaitableTest, SleepsNoLongerThanAsked) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd readEnd(ends[0]);
  const UniqueFd writeEnd(ends[1]);
  FdWaitable on(readEnd.get(), POLLIN);

  expectUnhurriedWait(on);
  on.sleep(0ms);
  on.sleep(-1ms);  // poll() would take it for "without end"
}

TEST(FdWaitableTest, DoesNotTakeALongSleepForAShortOne) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd readEnd(ends[0]);
  const UniqueFd writeEnd(ends[1]);
  FdWaitable on(readEnd.get(), POLLIN);
  std::atomic<bool> written = false;
  const TimePoint start = systemClock().now();
  const Thread writer("writer", [&] {
    pauseFor(20ms, {.deadline = Deadline::never(), .subject = {}});
    written = true;
    EXPECT_EQ(::write(writeEnd.get(), "x", 1), 1);
  });

  on.sleep(Milliseconds(std::int64_t{1} << 32));  // 0 as an int

  EXPECT_TRUE(written);
  EXPECT_GE(systemClock().now() - start, 20ms);
}

TEST(CondWaitableTest, WakesWhenNotified) {
  Mutex mutex;
  CondVar changed;
  bool ready = false;
  const Thread notifier("notifier", [&] {
    const MutexLock lock(mutex);
    ready = true;
    changed.notifyAll();
  });

  const MutexLock lock(mutex);
  CondWaitable on(changed, mutex);
  while (!ready) {
    on.sleep(24h);  // ends because of the notice: the test has no day to spare
  }
}

TEST(CondWaitableTest, WakesPromptlyNotAtTheEndOfItsSlice) {
  auto fastest = Milliseconds::max();
  for (int i = 0; i < 20; ++i) {  // the fastest of many, because the machine may be busy
    Mutex mutex;
    CondVar changed;
    bool asleep = false;
    bool ready = false;
    TimePoint readySince;
    const Thread notifier("notifier", [&] {
      for (bool done = false; !done; std::this_thread::yield()) {
        const MutexLock lock(mutex);
        if (asleep) {  // seen under the lock: the slice of the waiter has just begun
          ready = true;
          readySince = systemClock().now();
          changed.notifyAll();
          done = true;
        }
      }
    });

    const MutexLock lock(mutex);
    asleep = true;
    CondWaitable on(changed, mutex);
    EXPECT_TRUE(
        waitUntil([&] { return ready; }, {.deadline = Deadline::after(60s), .subject = {}}, on));
    fastest = std::min(fastest, elapsedSince(readySince));
  }

  EXPECT_LT(fastest, 25ms);  // measured: under 1 ms; a slice is 50 ms
}

TEST(CondWaitableTest, SleepsNoLongerThanAsked) {
  Mutex mutex;
  CondVar changed;
  const MutexLock lock(mutex);
  CondWaitable on(changed, mutex);

  expectUnhurriedWait(on);
}

TEST(TimerWaitableTest, SleepsItsPeriodOrLess) {
  TimerWaitable timer(10ms);
  const TimePoint start = systemClock().now();
  timer.sleep(24h);

  EXPECT_GE(systemClock().now() - start, 10ms);
  EXPECT_LT(systemClock().now() - start, 1s);

  TimerWaitable slow(24h);
  slow.sleep(1ms);
  expectUnhurriedWait(slow);
}

TEST(SignalStormTest, NeitherBreaksNorLengthensAWait) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd readEnd(ends[0]);
  const UniqueFd writeEnd(ends[1]);
  Mutex mutex;
  CondVar changed;
  const MutexLock lock(mutex);
  FdWaitable fd(readEnd.get(), POLLIN);
  CondWaitable condition(changed, mutex);
  TimerWaitable timer(50ms);
  SignalStorm::delivered = 0;
  const SignalStorm storm;

  expectUnhurriedWait(fd);
  expectUnhurriedWait(condition);
  expectUnhurriedWait(timer);

  EXPECT_GT(SignalStorm::delivered, 20) << "the storm did not blow";
}

TEST(SignalStormTest, DoesNotShortenAPause) {
  const SignalStorm storm;
  const TimePoint start = systemClock().now();

  pauseFor(100ms, {.deadline = Deadline::never(), .subject = {}});

  EXPECT_GE(systemClock().now() - start, 100ms);
  EXPECT_LT(systemClock().now() - start, 1s);
}

TEST(PauseForTest, EndsAtTheNearerDeadline) {
  const TimePoint start = systemClock().now();

  pauseFor(24h, {.deadline = Deadline::after(20ms), .subject = {}});
  EXPECT_GE(systemClock().now() - start, 20ms);
  EXPECT_LT(systemClock().now() - start, 1s);

  pauseFor(Milliseconds::max(), {.deadline = Deadline::after(0ms), .subject = {}});
  pauseFor(0ms, {.deadline = Deadline::never(), .subject = {}});
  pauseFor(-1ms, {.deadline = Deadline::never(), .subject = {}});
  EXPECT_LT(systemClock().now() - start, 1s);
}

TEST(PauseForTest, GivesNoHangNotice) {
  const ScopedEnv warn("UNISONO_HANG_WARN", "0.001");
  const LogCapture log;

  pauseFor(60ms, {.deadline = Deadline::never(), .subject = [] { return "nothing"; }});

  EXPECT_THAT(log.lines(), IsEmpty());
}

}  // namespace
}  // namespace unisono
