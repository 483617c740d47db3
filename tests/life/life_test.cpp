#include <csignal>
#include <cstring>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "life/abort_record.hpp"
#include "life/blame.hpp"
#include "life/life_word.hpp"
#include "life/monitor.hpp"
#include "net/net_support.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::eventually;
using test::textOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

template <typename T>
class SharedPage {
 public:
  SharedPage()
      : page_(static_cast<T*>(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedPage() { ::munmap(page_, sizeof(T)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  T& operator*() const { return *page_; }
  T* operator->() const { return page_; }

 private:
  T* page_;
};

TEST(LifeWordTest, ThisSystemMarksThem) {
  EXPECT_TRUE(lifeWordsWork());
}

TEST(LifeWordTest, TellsOfADeathHoweverItCame) {
  for (const int signal : {SIGKILL, SIGTERM, 0}) {
    const SharedPage<LifeWord> word;
    word->prepare();
    const SharedPage<std::atomic<bool>> held;
    const pid_t child = ::fork();
    if (child == 0) {
      Monitor::instance().hold(*word);
      held->store(true);
      if (signal == 0) {
        ::_exit(0);
      }
      ::pause();
    }
    ASSERT_TRUE(eventually([&] { return held->load(); }));
    if (signal != 0) {
      EXPECT_FALSE(word->ownerDied());
      ::kill(child, signal);
    }
    EXPECT_TRUE(eventually([&] { return word->ownerDied(); })) << "signal " << signal;
    ::waitpid(child, nullptr, 0);
  }
}

TEST(LifeWordTest, OneThatWasLetGoTellsOfNoDeath) {
  const SharedPage<LifeWord> word;
  word->prepare();
  const pid_t child = ::fork();
  if (child == 0) {
    Monitor::instance().hold(*word);
    Monitor::instance().letGo(*word);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(word->ownerDied());
}

TEST(LifeWordTest, OneProcessCanHoldVeryMany) {
  std::vector<LifeWord> words(2500);
  for (LifeWord& word : words) {
    word.prepare();
    Monitor::instance().hold(word);
  }
  EXPECT_THROW(Monitor::instance().hold(words[0]), DistError) << "held already";
  for (LifeWord& word : words) {
    Monitor::instance().letGo(word);
    EXPECT_FALSE(word.ownerDied());
  }
}

TEST(AbortRecordTest, TheFirstCauseWins) {
  const SharedPage<AbortRecord> record;
  EXPECT_FALSE(record->isSet());
  EXPECT_FALSE(record->read());

  EXPECT_TRUE(record->publish({.reason = Reason::PEER_DEAD,
                               .culprits = {1023, 3, 64, -1, 1024},
                               .reporter = 1,
                               .seq = 42,
                               .text = "first"}));
  EXPECT_FALSE(record->publish({.reason = Reason::TIMEOUT, .text = "second"}));

  EXPECT_TRUE(record->isSet());
  const auto cause = record->read();
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->reason, Reason::PEER_DEAD);
  EXPECT_THAT(cause->culprits, ElementsAre(3, 64, 1023));
  EXPECT_EQ(cause->reporter, 1);
  EXPECT_EQ(cause->seq, 42U);
  EXPECT_EQ(cause->text, "first");
}

TEST(AbortRecordTest, AVeryLongTextIsCut) {
  const SharedPage<AbortRecord> record;
  record->publish({.text = std::string(10'000, 'x')});
  EXPECT_EQ(record->read()->text, std::string(488, 'x'));
}

TEST(AbortRecordTest, AWriterThatDiedIsTheCulprit) {
  const SharedPage<AbortRecord> record;
  auto& state = reinterpret_cast<std::atomic<std::uint32_t>&>(*record);
  state.store(3 + 5);  // as it is while rank 5 writes

  const auto cause = record->read();
  ASSERT_TRUE(cause);
  EXPECT_THAT(cause->culprits, ElementsAre(5));
  EXPECT_THAT(cause->text, HasSubstr("died while it was reporting"));

  state.store(1);  // somebody who has no rank
  EXPECT_THAT(record->read()->culprits, IsEmpty());
}

TEST(AbortRecordTest, GarbageInItDoesNoHarm) {
  const SharedPage<AbortRecord> record;
  std::memset(static_cast<void*>(&*record), 0xFF, sizeof(AbortRecord));
  reinterpret_cast<std::atomic<std::uint32_t>&>(*record).store(2);

  const auto cause = record->read();
  ASSERT_TRUE(cause);
  EXPECT_LE(cause->text.size(), 488U);
}

TEST(BlameTest, NamesReasonCulpritAndWhatWasDone) {
  EXPECT_THAT(textOf<DistBackendError>([] {
                throwCause(
                    {.reason = Reason::PEER_DEAD, .culprits = {1}, .text = "rank 5 has died"},
                    {.op = "all_reduce", .seq = 7, .group = "g", .rank = 0, .world = 2}, {5});
              }),
              AllOf(HasSubstr("rank 5 has died"), HasSubstr("[PEER_DEAD]"), HasSubstr("DO: "),
                    HasSubstr("op=all_reduce seq=7 group=g rank=0/2 culprits=[5]")));
  EXPECT_THROW(throwCause({.reason = Reason::TIMEOUT, .text = ""}, {}, {}), DistTimeoutError);
}

TEST(MonitorTest, AnswersThoseWhoKnowTheCookie) {
  Monitor& monitor = Monitor::instance();
  {
    const Monitor::Offer offer =
        monitor.offer("cookie", [](std::string_view request, pid_t from) -> Monitor::Answer {
          return {std::string(request) + (from == ::getpid() ? "!" : "?"), 1};
        });
    const auto reply = askMonitor(monitor.socketName(), "cookie", "hello", Deadline::after(5s));
    ASSERT_TRUE(reply.isOk());
    EXPECT_EQ(reply.value().bytes, "hello!");
    EXPECT_TRUE(reply.value().fd.valid());
    EXPECT_FALSE(askMonitor(monitor.socketName(), "wrong!", "hello", Deadline::after(5s)).isOk());
  }
  EXPECT_FALSE(askMonitor(monitor.socketName(), "cookie", "hello", Deadline::after(5s)).isOk())
      << "the offer is withdrawn";
}

TEST(MonitorTest, SurvivesHandlersThatThrowAndCallersThatLeave) {
  Monitor& monitor = Monitor::instance();
  const Monitor::Offer bad = monitor.offer(
      "bad", [](std::string_view, pid_t) -> Monitor::Answer { throw std::runtime_error("no"); });
  const Monitor::Offer good = monitor.offer("good", [](std::string_view, pid_t) -> Monitor::Answer {
    return {"yes", -1};
  });

  EXPECT_FALSE(askMonitor(monitor.socketName(), "bad", "", Deadline::after(5s)).isOk());
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(LocalSocket::connect(monitor.socketName(), Deadline::after(5s)));
  }
  EXPECT_TRUE(askMonitor(monitor.socketName(), "good", "", Deadline::after(5s)).isOk());
}

TEST(MonitorTest, AForkedChildHasItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a child of a process that has some";
#endif
  const std::string parents = Monitor::instance().socketName();
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(Monitor::instance().socketName() == parents ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Monitor::instance().socketName(), parents);
}

}  // namespace
}  // namespace unisono
