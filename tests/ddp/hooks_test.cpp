#include "unisono/ddp/hooks.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <gmock/gmock.h>
#include <limits>
#include <optional>

#include "unisono/ddp/reducer.hpp"

#include "ddp/hooked.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::averageOf;
using test::farthest;
using test::HookedTraining;
using test::inWorld;
using test::isTheSameEverywhere;
using test::textOf;
using test::Trained;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using MakeHook = std::shared_ptr<CommHook> (*)(Group);

const std::vector<Dims> kShapes = {{40, 30}, {701}, {1}, {3, 5, 7}};

TEST(PlainHooksTest, AllreduceGivesTheAverage) {
  const HookedTraining<float> training{.shapes = kShapes, .hook = hooks::allreduce, .steps = 3};
  const Trained<float> trained = training.run();
  EXPECT_TRUE(isTheSameEverywhere(trained));
  for (int step = 0; step < 3; ++step) {
    for (std::size_t param = 0; param < kShapes.size(); ++param) {
      EXPECT_LT(farthest(trained[0][static_cast<std::size_t>(step)][param],
                         averageOf(training, step, param)),
                1e-6);
    }
  }
}

TEST(PlainHooksTest, NoopLeavesEverybodyItsOwn) {
  const HookedTraining<float> training{.shapes = kShapes,
                                       .hook = [](const Group&) { return hooks::noop(); }};
  const Trained<float> trained = training.run();
  for (int rank = 0; rank < training.ranks; ++rank) {
    for (std::size_t param = 0; param < kShapes.size(); ++param) {
      EXPECT_EQ(trained[static_cast<std::size_t>(rank)][0][param], training.given(rank, 0, param));
    }
  }
}

/// As 16 bits, divided, added up, and rounded once more.
template <typename Narrow>
std::vector<double> sumOfNarrow(const HookedTraining<float>& training, std::size_t param) {
  std::vector<float> sums(training.given(0, 0, param).size());
  for (int rank = 0; rank < training.ranks; ++rank) {
    const std::vector<float> mine = training.given(rank, 0, param);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += static_cast<float>(Narrow(mine[i] / static_cast<float>(training.ranks)));
    }
  }
  std::vector<double> rounded;
  for (const float sum : sums) {
    rounded.push_back(static_cast<double>(static_cast<float>(Narrow(sum))));
  }
  return rounded;
}

template <typename Narrow>
void expectCompressed(MakeHook hook, double tolerance) {
  for (const int ranks : {1, 2, 5}) {
    const HookedTraining<float> training{.shapes = kShapes, .hook = hook, .ranks = ranks};
    const Trained<float> trained = training.run();
    EXPECT_TRUE(isTheSameEverywhere(trained));
    EXPECT_EQ(trained, training.run());  // run to run
    for (std::size_t param = 0; param < kShapes.size(); ++param) {
      // Of more than two, how often a sum is rounded depends on where the ranks are.
      EXPECT_LE(farthest(trained[0][0][param], sumOfNarrow<Narrow>(training, param)),
                ranks > 2 ? tolerance : 0)
          << ranks;
    }
  }
}

TEST(CompressHookTest, Float16IsDividedThenSummedThenConvertedBack) {
  expectCompressed<Half>(hooks::fp16Compress, 0x1p-10);
}

TEST(CompressHookTest, BFloat16IsDividedThenSummedThenConvertedBack) {
  expectCompressed<BFloat16>(hooks::bf16Compress, 0x1p-7);
}

TEST(CompressHookTest, ASumBeyondFloat16IsNoInfinityWhereTheAverageIsNot) {
  const HookedTraining<double> training{
      .shapes = {{3}}, .hook = hooks::fp16Compress, .ranks = 2, .gradient = [](auto...) {
        return std::vector<double>(3, 65504);
      }};
  EXPECT_THAT(training.run()[1][0][0], Each(65504));
}

TEST(CompressHookTest, BFloat16HasTheRangeOfFloat32) {
  const HookedTraining<float> training{
      .shapes = {{3}}, .hook = hooks::bf16Compress, .ranks = 2, .gradient = [](auto...) {
        return std::vector<float>(3, 0x1p120F);
      }};
  EXPECT_THAT(training.run()[0][0][0], Each(0x1p120F));
}

TEST(WrapperHookTest, AnotherHookWorksOnShortNumbers) {
  for (const DType type : {DType::FLOAT16, DType::BFLOAT16}) {
    class Looking final : public CommHook {
     public:
      Looking(Group group, DType type) : inner_(hooks::allreduce(std::move(group))), type_(type) {}
      Future run(GradBucket& bucket) override {
        EXPECT_EQ(bucket.buffer().dtype(), type_);
        EXPECT_EQ(bucket.gradients()[0].dtype(), type_);
        return inner_->run(bucket);
      }

     private:
      const std::shared_ptr<CommHook> inner_;
      const DType type_;
    };
    const HookedTraining<float> training{
        .shapes = kShapes, .hook = [type](const Group& world) {
          auto inner = std::make_shared<Looking>(world, type);
          return type == DType::FLOAT16 ? hooks::fp16Wrapper(inner) : hooks::bf16Wrapper(inner);
        }};
    const Trained<float> trained = training.run();
    EXPECT_TRUE(isTheSameEverywhere(trained));
    for (std::size_t param = 0; param < kShapes.size(); ++param) {
      EXPECT_LT(farthest(trained[0][0][param], averageOf(training, 0, param)),
                type == DType::FLOAT16 ? 2e-3 : 2e-2);
    }
  }
}

TEST(WrapperHookTest, WhatDoesNotFitIsRefusedAndNamesTheBucket) {
  class Wrong final : public CommHook {
   public:
    Future run(GradBucket&) override { return Future::ready(Tensor(few_)); }

   private:
    std::vector<float> few_ = std::vector<float>(2);
  };
  EXPECT_THAT(textOf<UsageError>([] { hooks::bf16Wrapper(nullptr); }), HasSubstr("no hook"));
  const HookedTraining<float> training{
      .shapes = {{3}},
      .hook = [](const Group&) { return hooks::fp16Wrapper(std::make_shared<Wrong>()); },
      .ranks = 1};
  EXPECT_THAT(textOf<UsageError>([&] { training.run(); }),
              AllOf(HasSubstr("gave float32[2] for bucket 0"), HasSubstr("3 real numbers")));
}

/// In 256 steps between the least and the most, of which 0 is one.
std::vector<double> inSteps(const std::vector<float>& row) {
  const float least = std::min(0.0F, *std::min_element(row.begin(), row.end()));
  const float most = std::max(0.0F, *std::max_element(row.begin(), row.end()));
  const float step = std::max((most - least) / 255.0F, std::numeric_limits<float>::epsilon());
  const float zero = std::clamp(-std::rint(least / step), 0.0F, 255.0F);
  std::vector<double> rounded;
  for (const float value : row) {
    const float code = std::clamp(std::rint(value / step) + zero, 0.0F, 255.0F);
    rounded.push_back(static_cast<double>(step * (code - zero)));
  }
  return rounded;
}

std::vector<double> averageInSteps(const HookedTraining<float>& training, std::size_t row) {
  std::vector<double> sums(training.given(0, 0, 0).size());
  for (int rank = 0; rank < training.ranks; ++rank) {
    const std::vector<float> mine = training.given(rank, 0, 0);
    for (std::size_t from = 0; from < mine.size(); from += row) {
      const std::size_t to = std::min(from + row, mine.size());
      const auto begin = mine.begin();
      const std::vector<double> rounded = inSteps(
          {begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to)});
      for (std::size_t i = from; i < to; ++i) {
        sums[i] += rounded[i - from] / training.ranks;
      }
    }
  }
  return sums;
}

TEST(QuantizeHookTest, ABucketIsTheAverageOfRoundedValues) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::int64_t count : {1, 5, 1901}) {
      const HookedTraining<float> training{
          .shapes = {Dims{count}}, .hook = hooks::quantizePerTensor, .ranks = ranks};
      const Trained<float> trained = training.run();
      EXPECT_TRUE(isTheSameEverywhere(trained));
      EXPECT_EQ(trained, training.run());
      const auto all = static_cast<std::size_t>(count);
      EXPECT_LT(farthest(trained[0][0][0], averageInSteps(training, all)), 1e-6) << count;
    }
  }
}

TEST(QuantizeHookTest, RowsHaveStepsOfTheirOwn) {
  for (const std::size_t row : {1U, 7U, 64U, 512U, 4000U}) {
    const HookedTraining<float> training{.shapes = {{1901}}, .hook = [row](const Group& world) {
                                           return hooks::quantizePerChannel(
                                               world, static_cast<std::int64_t>(row));
                                         }};
    const Trained<float> trained = training.run();
    EXPECT_TRUE(isTheSameEverywhere(trained));
    EXPECT_LT(farthest(trained[0][0][0], averageInSteps(training, row)), 1e-6) << row;
  }
}

TEST(QuantizeHookTest, OfOtherTypesTheAverageIsRoundedToTheType) {
  const HookedTraining<double> training{.shapes = {{33}}, .hook = hooks::quantizePerTensor};
  const Trained<double> trained = training.run();
  EXPECT_TRUE(isTheSameEverywhere(trained));
  EXPECT_LT(farthest(trained[0][0][0], averageOf(training, 0, 0)), 1.0 / 255);
  const HookedTraining<Half> halves{.shapes = {{33}}, .hook = hooks::quantizePerTensor};
  EXPECT_TRUE(isTheSameEverywhere(halves.run()));
}

TEST(QuantizeHookTest, ZerosStayZeroAndNothingStaysNothing) {
  const HookedTraining<float> training{.shapes = {{5}, {0}},
                                       .hook = hooks::quantizePerTensor,
                                       .gradient = [](int, int, std::size_t param) {
                                         return std::vector<float>(param == 0 ? 5 : 0);
                                       }};
  EXPECT_THAT(training.run()[1][0], ElementsAre(Each(0), ElementsAre()));
}

TEST(QuantizeHookTest, WhatIsNotFiniteShowsOnAllRanksInItsRowOnly) {
  for (const float wrong : {NAN, INFINITY, -INFINITY, 0x1.8p127F}) {
    const HookedTraining<float> training{
        .shapes = {{4}},
        .hook = [](const Group& world) { return hooks::quantizePerChannel(world, 2); },
        .ranks = 2,
        .gradient =
            [wrong](int rank, int, std::size_t) {
              return rank == 0 ? std::vector<float>{-wrong, wrong, 1, 1} : std::vector<float>(4, 1);
            }};
    const Trained<float> trained = training.run();
    for (const auto& steps : trained) {
      EXPECT_TRUE(std::isnan(steps[0][0][1])) << wrong;
      EXPECT_FLOAT_EQ(steps[0][0][2], 1.0F);
    }
  }
}

TEST(QuantizeHookTest, RowsOfNoValuesAreRefused) {
  inWorld(1, [](Group world) {
    EXPECT_THAT(textOf<UsageError>([&] { hooks::quantizePerChannel(world, 0); }),
                HasSubstr("bucketSize is 0"));
  });
}

TEST(HooksTest, SeveralBucketsAreUnderWayAtOnce) {
  for (const MakeHook hook : {MakeHook(hooks::bf16Compress), MakeHook(hooks::quantizePerTensor)}) {
    const HookedTraining<float> training{
        .shapes = std::vector<Dims>(16, Dims{50}), .hook = hook, .steps = 5};
    const Trained<float> trained = training.run();
    EXPECT_TRUE(isTheSameEverywhere(trained));
    EXPECT_LT(farthest(trained[2][4][7], averageOf(training, 4, 7)), 1.0 / 100);
  }
}

TEST(HooksTest, ComplexGradientsAreRefusedByThoseThatRound) {
  for (const MakeHook hook : {MakeHook(hooks::fp16Compress), MakeHook(hooks::bf16Compress),
                              MakeHook(hooks::quantizePerTensor)}) {
    inWorld(1, [&](Group world) {
      std::vector<std::complex<float>> phase(3);
      DataParallel model(world, {{Tensor(phase), "phase"}});
      model.reducer().registerCommHook(hook(world));
      model.begin();
      EXPECT_THAT(textOf<UsageError>([&] { model.ready(0); }),
                  AllOf(HasSubstr("is for real numbers"), HasSubstr("complex64")));
    });
  }
}

TEST(HooksTest, AHookGoesAlongToTheNewGroup) {
  for (const MakeHook hook : {MakeHook(hooks::allreduce), MakeHook(hooks::bf16Compress),
                              MakeHook(hooks::quantizePerTensor)}) {
    for (const bool isWrapped : {false, true}) {
      inWorld(2, [&](Group world) {
        std::vector<float> value(3);
        std::optional<Group> first = world.split(0);
        DataParallel model(*first, {{Tensor(value), "w"}});
        model.reducer().registerCommHook(isWrapped ? hooks::fp16Wrapper(hook(*first))
                                                   : hook(*first));
        model.reducer().resetState(world.split(0));
        first->processGroup().abort();
        model.begin();
        std::ranges::fill(model.grad<float>(0), static_cast<float>(world.rank()));
        model.ready(0);
        model.finish();
        EXPECT_THAT(model.grad<float>(0), Each(::testing::FloatNear(0.5F, 1e-3F)));
      });
    }
  }
}

}  // namespace
}  // namespace unisono
