#include "base/env.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "support/support.hpp"

namespace unisono {
namespace {

using test::FreshProcess;
using test::LogCapture;
using test::ScopedEnv;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

UNISONO_KNOB(std::string, kText, "UNISONO_TEST_TEXT", "plain", "any text");
UNISONO_KNOB(std::int64_t, kWhole, "UNISONO_TEST_WHOLE", "42", "a count of things");
UNISONO_KNOB(double, kReal, "UNISONO_TEST_REAL", "0.5", "seconds to wait");
UNISONO_KNOB(bool, kSwitch, "UNISONO_TEST_SWITCH", "1", "0 or 1: whether to");

std::vector<UnknownVariable> unknownOf(std::vector<const char*> environment) {
  return unknownVariables(environment);
}

auto unknown(const std::string& name, const std::string& meant) {
  return AllOf(Field(&UnknownVariable::name, name), Field(&UnknownVariable::meant, meant));
}

TEST(EnvKnobTest, IsTheDefaultWhenUnset) {
  EXPECT_EQ(kText.value(), "plain");
  EXPECT_EQ(kWhole.value(), 42);
  EXPECT_EQ(kReal.value(), 0.5);
  EXPECT_TRUE(kSwitch.value());
}

TEST(EnvKnobTest, IsTheDefaultWhenEmpty) {
  const ScopedEnv text("UNISONO_TEST_TEXT", "");
  const ScopedEnv whole("UNISONO_TEST_WHOLE", "");
  const ScopedEnv real("UNISONO_TEST_REAL", "");
  const ScopedEnv toggle("UNISONO_TEST_SWITCH", "");

  EXPECT_EQ(kText.value(), "plain");
  EXPECT_EQ(kWhole.value(), 42);
  EXPECT_EQ(kReal.value(), 0.5);
  EXPECT_TRUE(kSwitch.value());
}

TEST(EnvKnobTest, IsTheVariablesValueAtTheTimeOfAsking) {
  const ScopedEnv text("UNISONO_TEST_TEXT", " a=b ");
  const ScopedEnv whole("UNISONO_TEST_WHOLE", "-9223372036854775808");
  const ScopedEnv real("UNISONO_TEST_REAL", "1e3");
  EXPECT_EQ(kText.value(), " a=b ");
  EXPECT_EQ(kWhole.value(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(kReal.value(), 1000.0);

  const ScopedEnv later("UNISONO_TEST_WHOLE", "7");
  EXPECT_EQ(kWhole.value(), 7);
}

TEST(EnvKnobTest, ReadsTheUsualWordsForYesAndNo) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    const ScopedEnv toggle("UNISONO_TEST_SWITCH", yes);
    EXPECT_TRUE(kSwitch.value()) << yes;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    const ScopedEnv toggle("UNISONO_TEST_SWITCH", no);
    EXPECT_FALSE(kSwitch.value()) << no;
  }
}

TEST(EnvKnobTest, RefusesABadValueNamingVariableValueAndRemedy) {
  const ScopedEnv whole("UNISONO_TEST_WHOLE", "ten");

  EXPECT_THAT([] { kWhole.value(); }, ThrowsMessage<UsageError>(AllOf(
                                          HasSubstr("UNISONO_TEST_WHOLE"), HasSubstr("'ten'"),
                                          HasSubstr("not a whole number"), HasSubstr("default 42"),
                                          HasSubstr("count of things"), HasSubstr("[CONFIG]"))));
}

TEST(EnvKnobTest, RefusesNumbersThatAreNotWholeOrDoNotFit) {
  for (const char* bad : {"1.5", "1x", "0x10", " 1", "1 ", "+-1", "9223372036854775808", "1e3"}) {
    const ScopedEnv whole("UNISONO_TEST_WHOLE", bad);
    EXPECT_THROW(kWhole.value(), UsageError) << bad;
  }
  for (const char* bad : {"1,5", "x", "1e400", "1s", "--1"}) {
    const ScopedEnv real("UNISONO_TEST_REAL", bad);
    EXPECT_THROW(kReal.value(), UsageError) << bad;
  }
  for (const char* bad : {"2", "ja", "TRUE ", "01"}) {
    const ScopedEnv toggle("UNISONO_TEST_SWITCH", bad);
    EXPECT_THROW(kSwitch.value(), UsageError) << bad;
  }
}

TEST(EnvKnobTest, RefusesWhatIsNoNumberAlthoughItIsWrittenLikeOne) {
  for (const char* bad : {"nan", "inf", "-inf", "infinity", "NAN"}) {
    const ScopedEnv real("UNISONO_TEST_REAL", bad);
    EXPECT_THROW(kReal.value(), UsageError) << bad;
  }
}

TEST(EnvKnobTest, ShowsForeignBytesSafely) {
  const ScopedEnv whole("UNISONO_TEST_WHOLE", "1\n[rank 0] forged");

  EXPECT_THAT([] { kWhole.value(); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("1\\x0a[rank 0]"), Not(HasSubstr("\n")))));
}

TEST(KnownKnobsTest, ListsEveryKnobWithDefaultAndSentence) {
  std::vector<std::string> names;
  for (const EnvEntry* entry : knownKnobs()) {
    names.emplace_back(entry->name);
    EXPECT_THAT(entry->name, testing::StartsWith("UNISONO_"));
    EXPECT_STRNE(entry->doc, "") << entry->name;
    EXPECT_NE(entry->fallback, nullptr) << entry->name;
  }

  EXPECT_THAT(names, Contains("UNISONO_HANG_WARN").Times(1));
  EXPECT_THAT(names, Contains("UNISONO_LOG").Times(1));
  EXPECT_THAT(names, Contains("UNISONO_TEST_WHOLE").Times(1));
}

TEST(UnknownVariablesTest, AreNamedWithTheNearestKnownOne) {
  EXPECT_THAT(unknownOf({"UNISONO_HANG_WRAN=3", "PATH=/bin", "UNISONO_LOGS=debug"}),
              ElementsAre(unknown("UNISONO_HANG_WRAN", "UNISONO_HANG_WARN"),
                          unknown("UNISONO_LOGS", "UNISONO_LOG")));
}

TEST(UnknownVariablesTest, DoNotCountTheKnownAndTheForeign) {
  EXPECT_THAT(unknownOf({"UNISONO_LOG=debug", "UNISONO_HANG_WARN=", "HOME=/", "UNISONOX=1",
                         "XUNISONO_LOG=1", "=", ""}),
              IsEmpty());
  EXPECT_THAT(unknownOf({}), IsEmpty());
}

TEST(UnknownVariablesTest, HaveNoGuessWhenOnlyThePrefixIsAlike) {
  EXPECT_THAT(unknownOf({"UNISONO_XYZ=1", "UNISONO_SOMETHING_ELSE_ENTIRELY=1", "UNISONO_=1"}),
              ElementsAre(unknown("UNISONO_XYZ", ""),
                          unknown("UNISONO_SOMETHING_ELSE_ENTIRELY", ""), unknown("UNISONO_", "")));
}

TEST(CheckEnvironmentDeathTest, WarnsOnceAboutWhatNothingReads) {
  const FreshProcess fresh;
  const auto readTwice = [] {
    const ScopedEnv typo("UNISONO_TEST_WHOEL", "7");
    const LogCapture log;
    kWhole.value();
    kReal.value();
    for (const std::string& line : log.lines()) {
      std::fprintf(stderr, "<%s>\n", line.c_str());
    }
    std::fprintf(stderr, "lines=%zu\n", log.lines().size());
    ::_exit(0);
  };

  EXPECT_EXIT(readTwice(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("UNISONO_TEST_WHOEL is not known"),
                    HasSubstr("did you mean UNISONO_TEST_WHOLE?"), HasSubstr("lines=1")));
}

TEST(CheckEnvironmentDeathTest, LetsTheSinkThatShowsTheWarningReadKnobs) {
  const FreshProcess fresh;
  const auto readInSink = [] {
    ::alarm(20);
    const ScopedEnv typo("UNISONO_TEST_WHOEL", "7");
    setLogSink([](LogLevel, std::string_view) { kReal.value(); });
    kWhole.value();
    ::_exit(0);
  };

  EXPECT_EXIT(readInSink(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace unisono
