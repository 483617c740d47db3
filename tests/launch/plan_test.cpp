#include "launch/plan.hpp"

#include <csignal>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "unisono/base/error.hpp"

namespace unisono::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(PlanTest, NumbersTheRanksOfANodeAfterThoseOfTheNodesBeforeIt) {
  Job job;
  job.workers = 3;
  job.nodes = 4;
  job.nodeRank = 2;
  const Variables variables = variablesOf(job, 1, 5,
                                          {.master = {"localhost", 4711},
                                           .store = {"10.0.0.1", 29500},
                                           .secretFile = "/job/secret",
                                           .ownAddress = "10.0.0.3"},
                                          "/logs/error.json");

  EXPECT_EQ(variables.at("RANK"), "7");
  EXPECT_EQ(variables.at("LOCAL_RANK"), "1");
  EXPECT_EQ(variables.at("GROUP_RANK"), "2");
  EXPECT_EQ(variables.at("WORLD_SIZE"), "12");
  EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "3");
  EXPECT_EQ(variables.at("MASTER_ADDR"), "localhost");
  EXPECT_EQ(variables.at("MASTER_PORT"), "4711");
  EXPECT_EQ(variables.at("TORCHELASTIC_RESTART_COUNT"), "5");
  EXPECT_EQ(variables.at("UNISONO_STORE"), "tcp://10.0.0.1:29500");
  EXPECT_EQ(variables.at("UNISONO_AUTH_SECRET_FILE"), "/job/secret");
  EXPECT_EQ(variables.at("UNISONO_HOST_ADDR"), "10.0.0.3");
}

TEST(PlanTest, PutsItsVariablesInPlaceOfThoseOfTheLauncher) {
  const std::vector<const char*> base = {"RANK=99", "HOME=/home", "EMPTY=", "RANKS=x", nullptr};

  EXPECT_THAT(environmentWith({{"RANK", "1"}, {"NEW", "a=b"}}, base.data()),
              UnorderedElementsAre("HOME=/home", "EMPTY=", "RANKS=x", "RANK=1", "NEW=a=b"));
}

TEST(PlanTest, ReadsStreamsForAllRanksOrForSome) {
  EXPECT_THAT(parseStreams("--tee", "3", 2), ElementsAre(3U, 3U));
  EXPECT_THAT(parseStreams("--tee", "0:1,2:2", 3), ElementsAre(1U, 0U, 2U));
  EXPECT_THAT(parseStreams("--tee", "9:1", 2), ElementsAre(0U, 0U));
}

TEST(PlanTest, RefusesStreamsThatMakeNoSense) {
  for (const char* text :
       {"", "4", "33", "x", "0:4", "0:", ":1", "0:1,", ",", "0:1,,1:1", "0 :1"}) {
    EXPECT_THROW(parseStreams("--tee", text, 2), UsageError) << text;
  }
}

TEST(PlanTest, KnowsSignalsByTheirNames) {
  EXPECT_EQ(signalNumber("SIGTERM"), SIGTERM);
  EXPECT_EQ(signalNumber("USR1"), SIGUSR1);
  EXPECT_EQ(signalNumber("SIGNOTHING"), std::nullopt);
  EXPECT_EQ(signalNumber(""), std::nullopt);
  EXPECT_EQ(signalName(SIGKILL), "SIGKILL");
}

TEST(PlanTest, FindsProgramsAsAShellDoes) {
  const std::vector<std::string> command = commandFor(Program::BY_NAME, {"sh", "-c", "[1,2]"});

  ASSERT_THAT(command, SizeIs(3));
  EXPECT_THAT(command[0], HasSubstr("/sh"));
  EXPECT_EQ(command[2], "[1,2]");
}

TEST(PlanTest, RefusesWhatCannotBeStarted) {
  for (const char* name : {"no-such-program", "/no/such", "/", ".", "/dev/null", "no-such.py"}) {
    EXPECT_THROW(commandFor(Program::BY_NAME, {name}), UsageError) << name;
  }
}

}  // namespace
}  // namespace unisono::launch
