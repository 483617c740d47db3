#include "unisono/ddp/data_parallel.hpp"

#include <gmock/gmock.h>
#include <numeric>

#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::inWorld;
using test::textOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// y = 2 x + 1, learned from `samples` of all ranks together.
std::vector<double> trained(Group world, const DataParallelOptions& options, int steps) {
  std::vector<double> slope = {static_cast<double>(world.rank())};  // others become rank 0's
  std::vector<double> offset = {-7.0 * world.rank()};
  DataParallel model(world, {{Tensor(slope), "slope"}, {Tensor(offset), "offset"}}, options);
  for (int step = 0; step < steps; ++step) {
    model.begin();
    model.zeroGrad();
    for (int sample = world.rank(); sample < 12; sample += world.size()) {
      const double x = sample / 6.0 - 1;
      const double error = slope[0] * x + offset[0] - (2 * x + 1);
      model.grad<double>(0)[0] += error * x * world.size() / 12;
      model.grad<double>(1)[0] += error * world.size() / 12;
    }
    model.ready(1);
    model.ready(0);
    model.finish();
    slope[0] -= 0.5 * model.grad<double>(0)[0];
    offset[0] -= 0.5 * model.grad<double>(1)[0];
  }
  return {slope[0], offset[0]};
}

TEST(DataParallelTest, LearnsWhatOneRankLearnsFromAllData) {
  std::vector<double> alone;
  inWorld(1, [&](Group world) { alone = trained(world, {}, 100); });
  EXPECT_NEAR(alone[0], 2, 1e-3);
  EXPECT_NEAR(alone[1], 1, 1e-3);
  for (const bool views : {false, true}) {
    std::vector<std::vector<double>> learned(3);
    inWorld(3, [&](Group world) {
      learned[static_cast<std::size_t>(world.rank())] =
          trained(world, {.firstBucketBytesCap = 1, .gradientAsBucketView = views}, 100);
    });
    EXPECT_EQ(learned[1], learned[0]);  // to the bit
    EXPECT_EQ(learned[2], learned[0]);
    EXPECT_NEAR(learned[0][0], alone[0], 1e-12);
    EXPECT_NEAR(learned[0][1], alone[1], 1e-12);
  }
}

TEST(DataParallelTest, BeginsWithTheParametersOfRankZero) {
  inWorld(3, [](Group world) {
    std::vector<float> weights(10, static_cast<float>(world.rank() + 1));
    std::vector<Half> bias(3, Half(static_cast<float>(world.rank() + 1)));
    const DataParallel model(world, {{Tensor(weights), "weights"}, {Tensor(bias), "bias"}});
    EXPECT_THAT(weights, Each(1.0F));
    EXPECT_THAT(bias, Each(Half(1.0F)));
    EXPECT_THAT(model.grad<float>(0), Each(0.0F));
  });
}

TEST(DataParallelTest, RefusesRanksWhoseParametersDiffer) {
  inWorld(2, [](Group world) {
    std::vector<float> weights(world.rank() == 0 ? 10 : 11);
    EXPECT_THAT(textOf<DistBackendError>([&] {
                  DataParallel(world, {{Tensor(weights), "weights"}});
                }),
                HasSubstr("weights (parameter 0) of rank 1 has sizes [11], but [10] on rank 0"));
  });
}

TEST(DataParallelTest, ARankWithoutParametersHoldsUpNobody) {
  inWorld(2, [](Group world) {
    std::vector<float> weights(10);
    const Param param{Tensor(weights), "weights"};
    const std::vector<Param> params(world.rank() == 1 ? 0 : 1, param);
    EXPECT_THAT(textOf<DistBackendError>([&] { DataParallel(world, params); }),
                HasSubstr("Rank 0 has 1 params, while rank 1 has inconsistent 0 params"));
  });
}

TEST(DataParallelTest, AccumulatesSeveralBatches) {
  inWorld(2, [](Group world) {
    std::vector<float> weights(5);
    DataParallel model(world, {{Tensor(weights), "weights"}});
    for (int step = 0; step < 3; ++step) {
      model.zeroGrad();
      for (int batch = 0; batch < 4; ++batch) {
        model.begin(batch == 3);
        for (float& each : model.grad<float>(0)) {
          each += static_cast<float>(world.rank() + batch);
        }
        model.ready(0);
        model.finish();
      }
      EXPECT_THAT(model.grad<float>(0), Each(8.0F));  // (0+1+2+3 and 1+2+3+4) / 2
    }
  });
}

TEST(DataParallelTest, ParametersMayBeUnused) {
  inWorld(2, [](Group world) {
    std::vector<float> first(2);
    std::vector<float> second(2);
    DataParallel model(world, {{Tensor(first), "first"}, {Tensor(second), "second"}},
                       {.findUnusedParameters = true});
    for (int step = 0; step < 3; ++step) {
      model.begin();
      model.zeroGrad();
      if (world.rank() == 0) {
        model.grad<float>(0)[1] = 4;
        model.ready(0);
      }
      model.finish();
      EXPECT_EQ(model.grad<float>(0)[1], 2.0F);
      EXPECT_EQ(model.grad<float>(1)[1], 0.0F);
    }
  });
}

TEST(DataParallelTest, SaysWhenTheTypeIsAnother) {
  inWorld(1, [](Group world) {
    std::vector<float> weights(5);
    DataParallel model(world, {{Tensor(weights), "weights"}});
    EXPECT_THAT(textOf<UsageError>([&] { static_cast<void>(model.grad<double>(0)); }),
                HasSubstr("weights (parameter 0) is float32[5], not of float64"));
    EXPECT_THROW(static_cast<void>(model.grad(1)), UsageError);
    EXPECT_THROW(DataParallel(world, {}), UsageError);
  });
}

}  // namespace
}  // namespace unisono
