// How the contestants of a comparison are started.
#include "bench/collective/contest.hpp"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "base/str.hpp"
#include "support/support.hpp"

namespace unisono::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class EntrantsTest : public ::testing::Test {
 protected:
  void install(const std::string& program, const std::string& script = "") {
    const std::string file = folder_.file(program);
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  /// How `name` is started, of each of its commands the words.
  std::vector<std::vector<std::string>> commandsOf(const std::string& name, bool tcpOnly) {
    install(str("compare_", name));
    install(str("mpirun.", name));
    const test::ScopedEnv path("PATH", folder_.path());
    std::vector<Absentee> absent;
    const auto entrants = findEntrants(
        {name},
        {.ranks = 2, .tcpOnly = tcpOnly, .folder = folder_.path(), .scratch = folder_.path()},
        absent);
    EXPECT_TRUE(absent.empty());
    return entrants.empty() ? std::vector<std::vector<std::string>>() : entrants.front().commands;
  }

  test::TempDir folder_;
};

TEST_F(EntrantsTest, EachRankOfOursHasItsPlaceInItsEnvironment) {
  const auto commands = commandsOf("unisono", false);
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_THAT(commands[1], AllOf(Contains("RANK=1"), Contains("WORLD_SIZE=2"),
                                 Contains(folder_.file("compare_unisono"))));
  EXPECT_THAT(commands[1], Not(Contains(HasSubstr("UNISONO_TRANSPORT"))));
}

TEST_F(EntrantsTest, ByTcpOnlyNobodyMayUseThatItIsOnOneHost) {
  EXPECT_THAT(commandsOf("unisono", true), Contains(Contains("UNISONO_TRANSPORT=tcp")).Times(2));
  EXPECT_THAT(commandsOf("openmpi", true),
              ElementsAre(AllOf(Contains("tcp,self"), Contains("ob1"), Contains("^sm,han"))));
  // The environment of the one who starts the ranks goes to them.
  const auto mpich = commandsOf("mpich", true);
  ASSERT_EQ(mpich.size(), 1U);
  EXPECT_EQ(mpich[0].front(), "MPIR_CVAR_NOLOCAL=1");
  EXPECT_THAT(mpich[0], Contains("UCX_TLS=tcp,self"));
}

TEST_F(EntrantsTest, OtherwiseEachTakesWhatItLikes) {
  EXPECT_THAT(commandsOf("mpich", false),
              ElementsAre(ElementsAre(folder_.file("mpirun.mpich"), "-np", "2",
                                      folder_.file("compare_mpich"))));
  EXPECT_THAT(commandsOf("openmpi", false), ElementsAre(Not(Contains("--mca"))));
}

TEST_F(EntrantsTest, WhoIsNotThereIsNamed) {
  install("compare_openmpi");
  const test::ScopedEnv path("PATH", folder_.path());
  std::vector<Absentee> absent;
  const auto entrants =
      findEntrants({"openmpi", "gloo"},
                   {.ranks = 2, .folder = folder_.path(), .scratch = folder_.path()}, absent);
  EXPECT_TRUE(entrants.empty());
  ASSERT_EQ(absent.size(), 2U);
  EXPECT_EQ(absent[0].why, "there is no mpirun.openmpi");
  EXPECT_THAT(absent[1].why, AllOf(HasSubstr("no gloo when unisono was built"),
                                   HasSubstr("scripts/setup.sh peers")));
}

TEST_F(EntrantsTest, OursMayBeAnotherProgramThanThatOfTheFolder) {
  std::vector<Absentee> absent;
  const auto entrants = findEntrants({"unisono", kRegistered},
                                     {.ranks = 1,
                                      .folder = folder_.path(),
                                      .scratch = folder_.path(),
                                      .ours = {"/bin/unisono", "bench"}},
                                     absent);
  EXPECT_TRUE(absent.empty());
  ASSERT_EQ(entrants.size(), 2U);
  EXPECT_THAT(entrants[0].commands[0], Contains("/bin/unisono"));
  EXPECT_EQ(entrants[0].commands[0].back(), "bench");
  EXPECT_EQ(entrants[1].commands[0].back(), "registered");
}

TEST_F(EntrantsTest, RanksOfTorchAreStartedByThePythonThatHasIt) {
  const Stage stage{.ranks = 2,
                    .folder = folder_.path(),
                    .scratch = folder_.path(),
                    .python = folder_.file("python")};
  std::vector<Absentee> absent;
  EXPECT_TRUE(findEntrants({kTorchGloo}, stage, absent).empty());
  install("python", "echo False");
  EXPECT_TRUE(findEntrants({kTorchGloo}, stage, absent).empty());
  ASSERT_EQ(absent.size(), 2U);
  EXPECT_THAT(absent[0].why, AllOf(HasSubstr("there is no "), HasSubstr("--python")));
  EXPECT_THAT(absent[1].why, AllOf(HasSubstr("has no torch"), HasSubstr("--python")));

  install("python", "echo True");
  const auto entrants = findEntrants({kTorchGloo}, stage, absent);
  ASSERT_EQ(entrants.size(), 1U);
  EXPECT_THAT(entrants[0].commands,
              ElementsAre(Contains("RANK=0"), AllOf(Contains("RANK=1"), Contains("WORLD_SIZE=2"))));
  EXPECT_TRUE(std::filesystem::exists(entrants[0].commands[0].back())) << "its program";
}

TEST_F(EntrantsTest, WhoseRanksEndAtOnceIsLeftOutAtOnce) {
  install("ends");
  std::vector<Absentee> absent;
  const Contest contest({{"ends", {{folder_.file("ends")}}}}, 1, folder_.path(), absent);
  EXPECT_TRUE(contest.names().empty());
  ASSERT_EQ(absent.size(), 1U);
  EXPECT_EQ(absent[0].name, "ends");
}

}  // namespace
}  // namespace unisono::bench
