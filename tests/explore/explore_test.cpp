#include <gmock/gmock.h>

#include "explore/planted.hpp"
#include "explore/scenarios.hpp"

namespace unisono::explore {
namespace {

constexpr std::uint64_t kSeeds = 1000;

/// A name that can be part of a test's.
std::string plain(std::string_view name) {
  std::string text(name);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

class ExploreTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { ::setenv("UNISONO_LOG", "off", 1); }
};

TEST_P(ExploreTest, KeepsItsPromisesInEveryInterleaving) {
  const Entry& entry = entries()[GetParam()];
  GroupStage stage(entry.scenario);
  const Figures figures = examine(stage, entry.efforts.quick);
  EXPECT_EQ(figures.broken, "") << "schedule: " << figures.schedule;
  EXPECT_GT(figures.runs, 100U);
  EXPECT_GT(figures.kills, 20U);
}

TEST_P(ExploreTest, KeepsItsPromisesByChance) {
  GroupStage stage(entries()[GetParam()].scenario);
  const Figures figures = gamble(stage, 1, kSeeds, true);
  EXPECT_EQ(figures.broken, "") << "schedule: " << figures.schedule;
}

INSTANTIATE_TEST_SUITE_P(All, ExploreTest, ::testing::Range(std::size_t{0}, entries().size()),
                         [](const auto& it) { return plain(entries()[it.param].scenario.name); });

TEST(ExploreFormationTest, EverybodyComesOrLearnsWhoDidNot) {
  FormationStage pair(2);
  const Figures two = examine(pair, {2, 1});
  EXPECT_EQ(two.broken, "") << "schedule: " << two.schedule;
  FormationStage trio(3);
  const Figures three = examine(trio, {1, 0});
  EXPECT_EQ(three.broken, "") << "schedule: " << three.schedule;
}

class PlantedTest : public ExploreTest {};

TEST_P(PlantedTest, IsFoundAndItsScheduleShowsItAgain) {
  const Planted& planted = plantedMistakes()[GetParam()];
  GroupStage stage(planted.scenario);
  stage.machine().setMistake(planted.mistake);
  const Figures found = exhaust(stage, {2, planted.kills}, 200'000);
  ASSERT_NE(found.broken, "") << "not found in " << found.runs << " runs";
  Script script(found.schedule);
  const auto again = stage.play(script);
  EXPECT_EQ(again.broken, found.broken);
  EXPECT_EQ(again.schedule, found.schedule);
  // It is the mistake that was found, not something else.
  stage.machine().setMistake(Mistake::NONE);
  if (planted.mistake != Mistake::NONE) {
    Script same(found.schedule);
    EXPECT_EQ(stage.play(same).broken, "");
  }
}

TEST_P(PlantedTest, IsFoundByChanceToo) {
  const Planted& planted = plantedMistakes()[GetParam()];
  GroupStage stage(planted.scenario);
  stage.machine().setMistake(planted.mistake);
  const Figures found = gamble(stage, 1, 10'000, planted.kills > 0);
  EXPECT_NE(found.broken, "") << "not found in " << found.runs << " runs";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedTest,
                         ::testing::Range(std::size_t{0}, plantedMistakes().size()),
                         [](const auto& it) {
                           return plain(plantedMistakes()[it.param].scenario.name);
                         });

TEST(ScheduleTest, WhatIsNoScheduleIsRefused) {
  EXPECT_THROW(Script("12?1"), std::invalid_argument);
  EXPECT_THROW(Script("a"), std::invalid_argument);
  EXPECT_NO_THROW(Script("12>1 40!0 61~2"));
}

}  // namespace
}  // namespace unisono::explore
