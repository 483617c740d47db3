#include "base/log.hpp"

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/thread.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::FakeClock;
using test::FreshProcess;
using test::LogCapture;
using test::runInChild;
using test::ScopedEnv;
using test::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

/// Puts a file in the place of stderr while it lives.
class StderrToFile {
 public:
  explicit StderrToFile(std::string path) : path_(std::move(path)), before_(::dup(STDERR_FILENO)) {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ::dup2(file, STDERR_FILENO);
    ::close(file);
  }
  ~StderrToFile() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  StderrToFile(const StderrToFile&) = delete;
  StderrToFile& operator=(const StderrToFile&) = delete;

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) {
      lines.push_back(line);
    }
    return lines;
  }

 private:
  const std::string path_;
  const int before_;
};

/// What a process started with UNISONO_LOG=`setting` shows of each level in `room`.
std::string shown(const std::string& setting, const std::string& room) {
  const ScopedEnv env("UNISONO_LOG", setting);
  const TempDir dir;
  runInChild([&] {  // a child reads the setting anew
    std::ofstream out(dir.file("shown"));
    for (const auto& [level, letter] : std::map<LogLevel, char>{{LogLevel::DEBUG, 'D'},
                                                                {LogLevel::INFO, 'I'},
                                                                {LogLevel::WARN, 'W'},
                                                                {LogLevel::ERROR, 'E'}}) {
      if (logEnabled(level, room)) {
        out << letter;
      }
    }
    return true;
  });
  std::string letters;
  std::ifstream(dir.file("shown")) >> letters;
  return letters;
}

TEST(LogTest, ShowsWarningsAndErrorsByDefault) {
  EXPECT_EQ(shown("", "store"), "WE");
  EXPECT_EQ(shown("warn", "store"), "WE");
}

TEST(LogTest, ShowsTheLevelThatIsSet) {
  EXPECT_EQ(shown("debug", "store"), "DIWE");
  EXPECT_EQ(shown("info", "store"), "IWE");
  EXPECT_EQ(shown("error", "store"), "E");
  EXPECT_EQ(shown("off", "store"), "");
}

TEST(LogTest, ShowsLevelsByRoom) {
  EXPECT_EQ(shown("info,store=debug", "store"), "DIWE");
  EXPECT_EQ(shown("info,store=debug", "net"), "IWE");
  EXPECT_EQ(shown("store=off", "store"), "");
  EXPECT_EQ(shown("store=off", "net"), "WE");
  EXPECT_EQ(shown("store=error,debug,net=off,", "net"), "");
  EXPECT_EQ(shown("store=error,debug,net=off,", "other"), "DIWE");
}

TEST(LogTest, KeepsWarningsWhenTheSettingIsMisspelt) {
  EXPECT_EQ(shown("debgu", "store"), "WE");
  EXPECT_EQ(shown("store=loud", "store"), "WE");
  EXPECT_EQ(shown(",,=,", "store"), "WE");
}

TEST(LogTest, TakesTheLastOfSeveralSettingsForOneRoom) {
  EXPECT_EQ(shown("store=off,store=debug", "store"), "DIWE");
  EXPECT_EQ(shown("off,debug", "store"), "DIWE");
}

TEST(LogTest, TakesCapitalsAndBlanks) {
  EXPECT_EQ(shown("INFO, store = Debug", "store"), "DIWE");
  EXPECT_EQ(shown("INFO, store = Debug", "net"), "IWE");
}

TEST(LogDeathTest, SaysWhichPartOfTheSettingItDoesNotKnow) {
  const FreshProcess fresh;
  const auto logTwice = [] {
    ::setenv("UNISONO_LOG", "info,store=loud", 1);
    UNISONO_LOG(INFO, "net", "first");
    UNISONO_LOG(INFO, "net", "second");
    ::_exit(0);
  };

  EXPECT_EXIT(logTwice(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("UNISONO_LOG"), HasSubstr("'store=loud'"), HasSubstr("first")));
}

TEST(LogDeathTest, TellsOfAWrongSettingAlsoWhereNothingElseIsLogged) {
  const FreshProcess fresh;
  const auto readKnobs = [] {
    ::setenv("UNISONO_LOG", "bogus", 1);
    checkEnvironment();
    checkEnvironment();
    ::_exit(0);
  };

  EXPECT_EXIT(readKnobs(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("'bogus'"), HasSubstr("debug, info, warn, error or off")));
}

TEST(LogTest, StartsWithTheRoom) {
  const LogCapture log;

  UNISONO_LOG(WARN, "store", "client ", 7, " is gone");

  EXPECT_THAT(log.lines(), ElementsAre("unisono/store: client 7 is gone"));
}

TEST(LogTest, PutsTheRankInFrontOnceItIsKnown) {
  const LogCapture log;

  setLogRank(3);
  UNISONO_LOG(WARN, "store", "one");
  setLogRank(-1);
  UNISONO_LOG(WARN, "store", "two");

  EXPECT_THAT(log.lines(), ElementsAre("[rank 3] unisono/store: one", "unisono/store: two"));
}

TEST(LogTest, KeepsTheRankInAForkedChild) {
  setLogRank(3);
  const int status = runInChild([] {
    const LogCapture log;
    UNISONO_LOG(WARN, "store", "one");
    EXPECT_THAT(log.lines(), ElementsAre("[rank 3] unisono/store: one"));
    return true;
  });
  setLogRank(-1);

  EXPECT_EQ(status, 0);
}

TEST(LogTest, BuildsTheTextOnlyWhenItIsShown) {
  const LogCapture log;
  bool built = false;
  const auto part = [&] {
    built = true;
    return "part";
  };

  UNISONO_LOG(DEBUG, "store", part());
  EXPECT_FALSE(built);
  UNISONO_LOG(ERROR, "store", part());
  EXPECT_TRUE(built);
}

TEST(LogTest, TellsTheSinkTheLevel) {
  std::vector<LogLevel> levels;
  setLogSink([&](LogLevel level, std::string_view) { levels.push_back(level); });
  UNISONO_LOG(WARN, "store", "one");
  UNISONO_LOG(ERROR, "store", "two");
  setLogSink({});

  EXPECT_THAT(levels, ElementsAre(LogLevel::WARN, LogLevel::ERROR));
}

TEST(LogTest, WritesOneLineWhateverTheTextHolds) {
  const LogCapture log;

  UNISONO_LOG(WARN, "store", "key a\nb\r\x1b[2J \xff\xc2\x85\xe2\x80\xa8", std::string(1, '\0'));

  EXPECT_THAT(log.lines(), ElementsAre("unisono/store: key a\\x0ab\\x0d\\x1b[2J "
                                       "\\xff\\xc2\\x85\\xe2\\x80\\xa8\\x00"));
}

TEST(LogTest, WritesToStderrWithTimeAndLevel) {
  const TempDir dir;
  std::vector<std::string> lines;
  {
    const StderrToFile captured(dir.file("stderr"));
    UNISONO_LOG(WARN, "store", "key a\nb");
    UNISONO_LOG(ERROR, "net", "{} %s");
    lines = captured.lines();
  }

  const std::string stamp = "....-..-..T..:..:......Z ";
  EXPECT_THAT(lines, ElementsAre(MatchesRegex(stamp + "warning unisono/store: key a\\\\x0ab"),
                                 MatchesRegex(stamp + "error unisono/net: \\{\\} %s")));
}

TEST(LogTest, StampsLinesWithTheTimeInUtc) {
  const ScopedEnv zone("TZ", "XXX-11:30");
  ::tzset();
  const TempDir dir;
  std::vector<std::string> lines;
  const std::time_t before = std::time(nullptr);
  {
    const StderrToFile captured(dir.file("stderr"));
    UNISONO_LOG(WARN, "store", "now");
    lines = captured.lines();
  }
  ASSERT_EQ(lines.size(), 1U);

  std::tm parsed{};
  ASSERT_NE(::strptime(lines[0].c_str(), "%Y-%m-%dT%H:%M:%S", &parsed), nullptr);
  const std::time_t stamped = ::timegm(&parsed);
  EXPECT_GE(stamped, before);
  EXPECT_LT(stamped, before + 60);
  EXPECT_THAT(lines[0].substr(19), MatchesRegex("\\....Z warning .*"));
}

TEST(LogTest, GoesBackToStderrWithoutASink) {
  const TempDir dir;
  const StderrToFile captured(dir.file("stderr"));
  {
    const LogCapture log;
    UNISONO_LOG(WARN, "store", "captured");
    EXPECT_EQ(log.lines().size(), 1U);
  }
  UNISONO_LOG(WARN, "store", "shown");

  EXPECT_THAT(captured.lines(), ElementsAre(HasSubstr("shown")));
}

TEST(LogTest, SurvivesASinkThatThrows) {
  setLogSink([](LogLevel, std::string_view) { throw std::runtime_error("disk full"); });
  UNISONO_LOG(WARN, "store", "one");
  setLogSink([](LogLevel, std::string_view) { throw 5; });
  UNISONO_LOG(WARN, "store", "two");
  setLogSink({});
}

TEST(LogTest, SurvivesPartsThatThrow) {
  const LogCapture log;
  const auto part = []() -> std::string { throw std::bad_alloc(); };
  const char* const null = nullptr;

  EXPECT_NO_THROW(UNISONO_LOG(WARN, "store", part()));
  EXPECT_NO_THROW(UNISONO_LOG(WARN, "store", null));
  UNISONO_LOG(WARN, "store", "next");

  EXPECT_THAT(log.lines(),
              ElementsAre(HasSubstr("bad_alloc"), HasSubstr("null"), HasSubstr("next")));
}

TEST(LogTest, LetsASinkLogAndReplaceItself) {
  std::vector<std::string> lines;
  setLogSink([&](LogLevel, std::string_view line) {
    lines.emplace_back(line);
    setLogSink([&](LogLevel, std::string_view inner) { lines.emplace_back(inner); });
    UNISONO_LOG(WARN, "store", "inner");
  });
  UNISONO_LOG(WARN, "store", "outer");
  setLogSink({});

  EXPECT_THAT(lines, ElementsAre(HasSubstr("outer"), HasSubstr("inner")));
}

/// Logs when it is destroyed, as the last thing a sink may hold.
struct LogsAtItsEnd {
  LogsAtItsEnd() = default;
  LogsAtItsEnd(const LogsAtItsEnd&) = delete;
  LogsAtItsEnd& operator=(const LogsAtItsEnd&) = delete;
  ~LogsAtItsEnd() { UNISONO_LOG(WARN, "store", "the sink is gone"); }
};

TEST(LogTest, LetsASinkLogWhileItIsReplaced) {
  EXPECT_EQ(runInChild([] {
              setLogSink([held = std::make_shared<LogsAtItsEnd>()](LogLevel, std::string_view) {});
              const LogCapture log;
              EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("the sink is gone")));
              return true;
            }),
            0);
}

TEST(LogTest, KeepsTheLinesOfManyThreadsWhole) {
  const TempDir dir;
  std::vector<std::string> lines;
  {
    const StderrToFile captured(dir.file("stderr"));
    {
      const auto writeMany = [] {
        for (int i = 0; i < 200; ++i) {
          UNISONO_LOG(WARN, "store", std::string(100, 'x'));
        }
      };
      const Thread first("first", writeMany);
      const Thread second("second", writeMany);
    }
    lines = captured.lines();
  }

  EXPECT_EQ(lines.size(), 400U);
  EXPECT_THAT(lines, ::testing::Each(MatchesRegex(".* unisono/store: x+")));
}

TEST(LogTest, WorksInAForkedChild) {
  EXPECT_EQ(runInChild([] {
              const LogCapture log;
              UNISONO_LOG(WARN, "store", "from the child");
              EXPECT_THAT(log.lines(), ElementsAre("unisono/store: from the child"));
              return true;
            }),
            0);
}

/// 'S' while the thread sleeps in the kernel.
char stateOfThread(pid_t tid) {
  std::ifstream stat("/proc/self/task/" + std::to_string(tid) + "/stat");
  std::string text;
  std::getline(stat, text);
  return text[text.rfind(')') + 2];
}

TEST(LogTest, WorksInAChildForkedWhileAnotherThreadWasWriting) {
  // stderr becomes a pipe that is full, so that the writer stands still in the middle.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd readEnd(ends[0]);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[1]);
  ::fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
  while (::write(STDERR_FILENO, "x", 1) == 1) {}
  ::fcntl(STDERR_FILENO, F_SETFL, 0);
  std::atomic<pid_t> writer = 0;
  Thread thread("writer", [&] {
    writer = static_cast<pid_t>(::syscall(SYS_gettid));
    UNISONO_LOG(WARN, "store", "stands still");
  });
  while (writer == 0 || stateOfThread(writer) != 'S') {
    std::this_thread::yield();
  }

  const int status = runInChild([&] {
    ::dup2(saved, STDERR_FILENO);
    UNISONO_LOG(WARN, "store", "from the child");
    return true;
  });

  ::dup2(saved, STDERR_FILENO);  // the last write end of the pipe goes with it
  ::close(saved);
  std::vector<char> drain(1U << 16U);
  while (::read(readEnd.get(), drain.data(), drain.size()) > 0) {}
  thread.join();
  EXPECT_EQ(status, 0);
}

TEST(LogLimitTest, AdmitsOnePerPeriod) {
  FakeClock clock;
  LogLimit limit(std::chrono::seconds(60));
  std::string suffix = "old";

  EXPECT_TRUE(limit.admit(&suffix, clock));
  EXPECT_EQ(suffix, "");
  clock.advance(Milliseconds(59'999));
  EXPECT_FALSE(limit.admit(&suffix, clock));
  EXPECT_FALSE(limit.admit(&suffix, clock));
  clock.advance(Milliseconds(1));
  EXPECT_TRUE(limit.admit(&suffix, clock));
  EXPECT_THAT(suffix, HasSubstr("2 more"));
  clock.advance(std::chrono::seconds(60));
  EXPECT_TRUE(limit.admit(&suffix, clock));
  EXPECT_EQ(suffix, "") << "none was left out since";
}

TEST(LogLimitTest, AdmitsJustOnceWhenThePeriodNeverEnds) {
  FakeClock clock;
  LogLimit limit(Milliseconds::max());
  std::string suffix;

  EXPECT_TRUE(limit.admit(&suffix, clock));
  clock.advance(std::chrono::hours(24 * 365 * 100));
  EXPECT_FALSE(limit.admit(&suffix, clock));
}

TEST(LogLimitTest, CountsEveryMessageOfManyThreads) {
  FakeClock clock;
  LogLimit limit(std::chrono::seconds(60));
  std::atomic<int> admitted = 0;
  {
    const auto tryMany = [&] {
      std::string suffix;
      for (int i = 0; i < 1000; ++i) {
        admitted += limit.admit(&suffix, clock) ? 1 : 0;
      }
    };
    const Thread first("first", tryMany);
    const Thread second("second", tryMany);
  }
  EXPECT_EQ(admitted, 1);

  clock.advance(std::chrono::seconds(60));
  std::string suffix;
  EXPECT_TRUE(limit.admit(&suffix, clock));
  EXPECT_THAT(suffix, HasSubstr("1999 more"));
}

}  // namespace
}  // namespace unisono
