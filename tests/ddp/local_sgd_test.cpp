#include <gmock/gmock.h>
#include <optional>

#include "unisono/ddp/periodic_average.hpp"
#include "unisono/ddp/post_local_sgd.hpp"

#include "ddp/hooked.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using hooks::PeriodicAverage;
using hooks::PostLocalSGD;
using test::HookedTraining;
using test::inWorld;
using test::textOf;
using test::Trained;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(PostLocalSGDTest, AfterAWhileOnlyASubgroupIsAveragedOver) {
  for (const bool averageLater : {true, false}) {
    const HookedTraining<float> training{
        .shapes = {{3}, {1}},
        .hook =
            [averageLater](Group world) {
              return std::make_shared<PostLocalSGD>(
                  world, *world.split(world.rank() / 2),
                  hooks::PostLocalSGDOptions{.startIter = 2, .averageLater = averageLater});
            },
        .ranks = 4,
        .steps = 4,
        .gradient =
            [](int rank, int, std::size_t param) {
              return std::vector<float>(param == 0 ? 3 : 1, static_cast<float>(rank));
            }};
    const Trained<float> trained = training.run();
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const float later = averageLater ? (rank < 2 ? 0.5F : 2.5F) : static_cast<float>(rank);
      for (std::size_t step = 0; step < 4; ++step) {
        EXPECT_THAT(trained[rank][step][0], Each(step < 2 ? 1.5F : later)) << rank << " " << step;
        EXPECT_THAT(trained[rank][step][1], Each(step < 2 ? 1.5F : later)) << rank << " " << step;
      }
    }
  }
}

TEST(PostLocalSGDTest, CountsStepsNotBuckets) {
  inWorld(1, [](Group world) {
    const auto hook = std::make_shared<PostLocalSGD>(world, world);
    std::vector<float> a(2);
    std::vector<double> b(2);
    DataParallel model(world, {{Tensor(a), "a"}, {Tensor(b), "b"}});
    model.reducer().registerCommHook(hook);
    model.begin();
    model.ready(0);
    model.ready(1);
    model.finish();
    EXPECT_EQ(hook->iter(), 1);
    hook->setIter(5);
    EXPECT_EQ(hook->iter(), 5);
    hook->useGroup(world);
    EXPECT_EQ(hook->iter(), 0);
  });
}

TEST(PostLocalSGDTest, GoesOnWithOtherGroups) {
  inWorld(2, [](Group world) {
    std::optional<Group> first = world.split(0);
    const auto hook =
        std::make_shared<PostLocalSGD>(*first, *first, hooks::PostLocalSGDOptions{.startIter = 1});
    std::vector<float> value(2);
    DataParallel model(*first, {{Tensor(value), "w"}});
    model.reducer().registerCommHook(hook);
    model.reducer().resetState(world);
    hook->useSubgroup(world);
    world.barrier();  // the other rank may still be at work in the first
    first->processGroup().abort();
    for (int step = 0; step < 2; ++step) {
      model.begin();
      std::ranges::fill(model.grad<float>(0), static_cast<float>(world.rank()));
      model.ready(0);
      model.finish();
      EXPECT_THAT(model.grad<float>(0), Each(0.5F));
    }
  });
}

TEST(PeriodicAverageTest, ParametersAreAveragedNowAndThen) {
  inWorld(3, [](Group world) {
    PeriodicAverage average(world, {.period = 2, .warmupSteps = 1});
    for (int step = 0; step < 5; ++step) {
      EXPECT_EQ(average.steps(), step);
      std::vector<float> weights(3, static_cast<float>(world.rank()));
      std::vector<double> bias(1, world.rank());
      const bool isAveraged = step == 1 || step == 3;
      EXPECT_EQ(average.step({Tensor(weights), Tensor(bias)}), isAveraged);
      EXPECT_THAT(weights, Each(isAveraged ? 1.0F : static_cast<float>(world.rank())));
      EXPECT_THAT(bias, Each(isAveraged ? 1.0 : world.rank()));
    }
    average.setSteps(9);
    EXPECT_EQ(average.steps(), 9);
  });
}

TEST(PeriodicAverageTest, AFailureIsThrownWhenNothingIsUnderWay) {
  inWorld(2, [](Group world) {
    PeriodicAverage average(world, {.period = 1});
    std::vector<float> weights(3 + static_cast<std::size_t>(world.rank()));  // not the same
    std::vector<float> bias(1);
    EXPECT_THROW(average.step({Tensor(weights), Tensor(bias)}), DistError);
  });
}

TEST(PeriodicAverageTest, MistakesAreToldInASentence) {
  inWorld(1, [](Group world) {
    EXPECT_THAT(textOf<UsageError>([&] { PeriodicAverage(world, {.period = 0}); }),
                HasSubstr("period is 0"));
    EXPECT_THAT(textOf<UsageError>([&] { PeriodicAverage(world, {.warmupSteps = -1}); }),
                HasSubstr("warmupSteps is -1"));
  });
}

}  // namespace
}  // namespace unisono
