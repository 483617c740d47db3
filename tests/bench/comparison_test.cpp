#include "bench/collective/comparison.hpp"

#include <gmock/gmock.h>

#include "bench/collective/picture.hpp"
#include "bench/environment.hpp"

namespace unisono::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

/// Libraries that take a given time, on a machine of a given mood.
class Scripted final : public Field {
 public:
  std::vector<std::string> list = {"unisono", "other"};
  std::vector<double> moods = {1};  // what the machine takes longer, by round of a reference
  std::size_t reference = 0;        // rounds of references so far, without those that warm up
  bool otherLacks = false;
  std::vector<Task> tasks = {};

  const std::vector<std::string>& names() const override { return list; }
  Result run(std::size_t which, const Task& task) override {
    tasks.push_back(task);
    if (which == 1 && otherLacks) {
      return {.microseconds = {}, .isLacking = true};
    }
    const bool isReference = task.op >= Op::COPY;
    const bool isWarm = task.count == 6;
    const double mood = isReference && !isWarm ? moods[reference++ % moods.size()] : 1;
    const double time = (isReference ? 10 : which == 0 ? 20 : 50) * mood;
    return {.microseconds = std::vector<double>(task.inARow ? 1 : task.count, time)};
  }
};

std::vector<CollectiveRow> compared(Scripted& field, const CollectivePlan& plan) {
  return compareCollectives(field, plan, [](const std::string&, std::uint64_t) {});
}
std::vector<std::string> peersOf(const std::vector<CollectiveRow>& rows) {
  std::vector<std::string> peers;
  for (const CollectiveRow& row : rows) {
    peers.push_back(row.peer);
  }
  return peers;
}

TEST(ComparisonTest, HasReferencesThatFitTheSize) {
  Scripted field;
  const CollectivePlan plan{.ops = {"gather"}, .sizes = {64, 1U << 20U}, .rounds = 3};

  const std::vector<CollectiveRow> rows = compared(field, plan);

  EXPECT_THAT(peersOf(rows),
              ElementsAre("flight", "unisono", "other", "copy", "rmw", "unisono", "other"));
  EXPECT_EQ(rows[0].p50, 5) << "there and back are two flights";
  EXPECT_EQ(rows[3].p50, 10);
  EXPECT_EQ(rows[2].ratio, 2.5);
  EXPECT_FALSE(rows[3].ratio.has_value());
  EXPECT_EQ(rows[5].p10, 20);
}

TEST(ComparisonTest, CallsARowNoisyWhoseReferencesDiffer) {
  Scripted field;
  field.moods = {1, 1.2, 1};
  const auto rows = compared(field, {.sizes = {64}, .rounds = 3});
  EXPECT_TRUE(rows[1].isNoisy);
  EXPECT_EQ(rows[1].tries, 1);
  EXPECT_NEAR(rows[1].spread, 0.2, 1e-9);
}

TEST(ComparisonTest, RepeatsARowWhoseReferencesDifferALot) {
  Scripted field;
  field.moods = {1, 2, 1, /*then*/ 1, 1.01, 1};
  const auto rows = compared(field, {.sizes = {64}, .rounds = 3});
  EXPECT_EQ(rows[1].tries, 2);
  EXPECT_FALSE(rows[1].isNoisy);

  Scripted wild;
  wild.moods = {1, 3, 1, /*then*/ 1, 2, 1};
  const auto others = compared(wild, {.sizes = {64}, .rounds = 3});
  EXPECT_EQ(others[1].tries, 2) << "not for ever";
  EXPECT_NEAR(others[1].spread, 1, 1e-9) << "the calmest";
}

TEST(ComparisonTest, LeavesOutWhoHasNoSuchElements) {
  Scripted field;
  field.otherLacks = true;
  const auto rows = compared(field, {.sizes = {64}, .rounds = 1, .element = Element::BFLOAT16});
  EXPECT_THAT(peersOf(rows), ElementsAre("flight", "unisono"));
}

TEST(ComparisonTest, DoesAsManyOperationsAsItIsTold) {
  Scripted field;
  const auto rows = compared(field, {.sizes = {64},
                                     .rounds = 1,
                                     .reduction = Reduction::MAX,
                                     .isChecked = false,
                                     .hasReferences = false,
                                     .warmUps = 0,
                                     .operations = 17});
  EXPECT_THAT(peersOf(rows), ElementsAre("unisono", "other"));
  EXPECT_EQ(rows[0].mean, 20);
  ASSERT_EQ(field.tasks.size(), 4U);
  EXPECT_EQ(field.tasks.front().count, 1U) << "there is no figure without one";
  EXPECT_EQ(field.tasks.back().count, 17U);
  EXPECT_EQ(field.tasks.back().reduction, Reduction::MAX);
  EXPECT_FALSE(field.tasks.back().isChecked);
}

TEST(ComparisonTest, LetsOperationsFollowEachOther) {
  Scripted field;
  const auto rows = compared(field, {.sizes = {64}, .rounds = 1, .inARow = true});
  EXPECT_TRUE(field.tasks.back().inARow);
  EXPECT_EQ(rows[1].p50, 20);
}

TEST(ComparisonTest, LeavesOutSizesThatHaveNotAnElementForEachRank) {
  Scripted field;
  const auto rows = compared(
      field,
      {.ops = {"scatter", "all_reduce"}, .sizes = {4, 8}, .rounds = 1, .element = Element::INT64});
  EXPECT_THAT(peersOf(rows), ElementsAre("flight", "unisono", "other"));
  EXPECT_EQ(rows[1].op, "all_reduce");
}

TEST(ComparisonTest, DrawsLibrariesAndNoReferences) {
  Scripted field;
  const std::string picture = drawTimes(compared(field, {.sizes = {64}, .rounds = 1}), "here");
  EXPECT_THAT(picture, HasSubstr("other"));
  EXPECT_THAT(picture, Not(HasSubstr("flight")));
}

TEST(ElementTest, HoldsSmallNumbersOfEveryKind) {
  for (const NamedElement& each : kElements) {
    EXPECT_EQ(elementCalled(each.name)->element, each.element);
    for (int value = 0; value <= 256; ++value) {
      double raw = -1;
      putElement(each.element, &raw, value);
      ASSERT_EQ(getElement(each.element, &raw), value) << each.name;
    }
  }
  EXPECT_EQ(elementCalled("float8"), nullptr);
}

TEST(ElementTest, KnowsTheBitsOfHalves) {
  EXPECT_EQ(halfOf(1, kMantissaOfHalf), 0x3C00);
  EXPECT_EQ(halfOf(1.5, kMantissaOfHalf), 0x3E00);
  EXPECT_EQ(halfOf(1, kMantissaOfBfloat), 0x3F80);
  EXPECT_TRUE(isSame(Element::BFLOAT16, 1000, 1004)) << "rounded on the way";
  EXPECT_FALSE(isSame(Element::FLOAT32, 1000, 1004));
}

TEST(EnvironmentTest, TellsWhatFiguresDependOn) {
  EXPECT_THAT(environment(), Contains(Key("huge_pages")));
  EXPECT_GT(processorTime().all, 0);
  EXPECT_EQ(stolenPercent({.all = 100, .stolen = 5}, {.all = 300, .stolen = 15}), 5);
  EXPECT_EQ(stolenPercent({}, {}), 0);
}

}  // namespace
}  // namespace unisono::bench
