#include <gmock/gmock.h>

#include "simulation/faults.hpp"
#include "simulation/world.hpp"
#include "support/effort.hpp"

namespace unisono::simulation {
namespace {

constexpr std::uint64_t kSeeds = test::effort(500U, 100U);

TEST(SimulationTest, KeepsAllPromisesForManySeeds) {
  std::size_t calls = 0;
  std::size_t canceled = 0;
  std::size_t cuts = 0;
  std::size_t pauses = 0;
  std::size_t deaths = 0;
  std::size_t lost = 0;
  std::size_t slices = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Report report = World({.seed = seed}).run();
    ASSERT_EQ(report.violation, "");
    ASSERT_EQ(report.undecided, 0U) << "seed " << seed;
    calls += report.calls;
    canceled += report.canceled;
    cuts += report.cuts;
    pauses += report.pauses;
    deaths += report.deaths;
    lost += report.lost;
    slices += report.slices;
  }

  // It would prove little if little had happened.
  EXPECT_GT(calls, kSeeds * 100);
  EXPECT_GT(canceled, kSeeds * 5);
  EXPECT_GT(cuts, kSeeds * 5);
  EXPECT_GT(pauses, kSeeds * 5);
  EXPECT_GT(deaths, kSeeds / 2);
  EXPECT_GT(lost, kSeeds / 2);
  EXPECT_GT(slices, kSeeds * 10);
}

TEST(SimulationTest, GoesTheSameWayForTheSameSeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Report first = World({.seed = seed}).run();
    const Report second = World({.seed = seed}).run();

    EXPECT_EQ(first.trace, second.trace);
    EXPECT_EQ(first.calls, second.calls);
  }
  EXPECT_NE(World({.seed = 1}).run().trace, World({.seed = 2}).run().trace);
}

TEST(SimulationTest, ShowsAViolationAgainForTheSeedThatItNames) {
  const Fault& fault = plantedFaults().front();
  std::uint64_t seed = 0;
  Report first;
  while (first.violation.empty() && ++seed <= 100) {
    first = World({.seed = seed, .fault = &fault}).run();
  }

  const Report second = World({.seed = seed, .fault = &fault}).run();

  EXPECT_THAT(first.violation, testing::StartsWith("seed " + std::to_string(seed) + " at "));
  EXPECT_EQ(second.violation, first.violation);
}

class PlantedFaultTest : public ::testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(Faults, PlantedFaultTest, ::testing::ValuesIn(plantedFaults()),
                         [](const auto& fault) { return fault.param.name; });

TEST_P(PlantedFaultTest, IsFound) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Report report = World({.seed = seed, .fault = &GetParam()}).run();
    if (!report.violation.empty()) {
      RecordProperty("seeds", static_cast<int>(seed));
      RecordProperty("violation", report.violation);
      return;
    }
  }
  FAIL() << "100 seeds did not find it";
}

}  // namespace

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

}  // namespace unisono::simulation
