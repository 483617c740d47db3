// Parameters that get no gradient: on some ranks, on all, always or sometimes.
#include <gmock/gmock.h>

#include "unisono/ddp/join.hpp"
#include "unisono/ddp/reducer.hpp"

#include "ddp/training.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::errorOf;
using test::inWorld;
using test::textOf;
using test::Training;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ReducerOptions findUnused(bool views) {
  return {.findUnusedParameters = true, .gradientAsBucketView = views};
}

class UnusedTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Views, UnusedTest, ::testing::Bool());

TEST_P(UnusedTest, WhatNobodyUsesStaysAsItIsAndWhatSomebodyUsesIsAveraged) {
  inWorld(2, [](Group world) {
    Training<float> training({3, 4, 5});
    GradBuffers host(3);
    Reducer reducer(world, training.params, {{2, 1}, {0}}, host, findUnused(GetParam()));
    const int me = world.rank();
    for (int number = 0; number < 3; ++number) {
      // Parameter 0 is used by both, 1 by rank 0, 2 by nobody.
      const std::vector<std::size_t> unused =
          me == 0 ? std::vector<std::size_t>{2} : std::vector<std::size_t>{1, 2};
      host.set(1, Tensor());
      reducer.beginBackward(unused);
      for (std::size_t param = 0; param < (me == 0 ? 2U : 1U); ++param) {
        training.compute(host, param, me, number);
        reducer.markReady(param);
      }
      reducer.finish();

      EXPECT_EQ(training.firstWrong(host, 0, 2, number, 2), -1);
      EXPECT_EQ(training.firstWrong(host, 1, 2, number, 1), -1) << "only rank 0 has one";
      EXPECT_FALSE(host.grad(2).defined());
      EXPECT_THAT(reducer.usedMap(), ElementsAre(2, 1, 0));
    }
    EXPECT_FALSE(reducer.rebuildBuckets());
  });
}

TEST_P(UnusedTest, AGradientThatNobodyAddedToIsNotAveraged) {
  inWorld(2, [](Group world) {
    Training<float> training({2, 2});
    GradBuffers host(2);
    std::vector<float> old(2, static_cast<float>(world.rank() + 1));
    host.set(1, Tensor(old));
    Reducer reducer(world, training.params, {{0, 1}}, host, findUnused(GetParam()));

    const std::vector<std::size_t> unused = {1};
    reducer.beginBackward(unused);
    training.compute(host, 0, world.rank(), 0);
    reducer.markReady(0);
    reducer.finish();

    EXPECT_EQ(training.firstWrong(host, 0, 2, 0, 2), -1);
    EXPECT_EQ(host.grad(1).dataAs<float>()[1], static_cast<float>(world.rank() + 1));
  });
}

TEST_P(UnusedTest, WhatWasUsedWhileAccumulatingCounts) {
  inWorld(2, [](Group world) {
    Training<float> training({2, 2});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{0, 1}}, host, findUnused(GetParam()));
    reducer.beginBackward({}, false);
    training.compute(host, 1, world.rank(), 0);
    reducer.markReady(1);
    reducer.finish();

    const std::vector<std::size_t> unused = {1};
    reducer.beginBackward(unused);
    training.compute(host, 0, world.rank(), 0);
    reducer.markReady(0);
    reducer.finish();

    EXPECT_EQ(training.firstWrong(host, 1, 2, 0, 2), -1);
    EXPECT_THAT(reducer.usedMap(), ElementsAre(2, 2));
  });
}

TEST_P(UnusedTest, ARankThatUsesNothingHoldsUpNobody) {
  inWorld(3, [](Group world) {
    Training<float> training({2, 3});
    GradBuffers host(2);
    ReducerOptions options = findUnused(GetParam());
    options.markMissingAsUnused = true;
    Reducer reducer(world, training.params, {{1}, {0}}, host, options);

    reducer.beginBackward();
    if (world.rank() != 2) {
      training.compute(host, 1, world.rank(), 0);
      reducer.markReady(1);
    }
    reducer.finish();

    EXPECT_EQ(training.firstWrong(host, 1, 3, 0, 2), -1);
    EXPECT_FALSE(host.grad(0).defined());
    EXPECT_THAT(reducer.usedMap(), ElementsAre(0, 2));
  });
}

/// A gradient that the others have another idea of stays on its rank only if nobody uses it.
TEST_P(UnusedTest, ABucketThatNobodyUsesNeedNotBeReduced) {
  for (const bool told : {true, false}) {
    inWorld(3, [told](Group world) {
      Training<float> training({3, 4, 5});
      GradBuffers host(3);
      ReducerOptions options = findUnused(GetParam());
      options.skipAllReduceUnusedParams = true;
      options.markMissingAsUnused = !told;
      Reducer reducer(world, training.params, {{2}, {1}, {0}}, host, options);
      std::vector<float> old(4, static_cast<float>(world.rank()));
      host.set(1, Tensor(old));
      for (int number = 0; number < 3; ++number) {
        const bool usesAll = number == 1;
        reducer.beginBackward(told && !usesAll ? std::vector<std::size_t>{1}
                                               : std::vector<std::size_t>{});
        for (const std::size_t param : {2U, 1U, 0U}) {
          if (param != 1 || usesAll) {
            training.compute(host, param, world.rank(), number);
            reducer.markReady(param);
          }
        }
        reducer.finish();

        EXPECT_EQ(reducer.stats().bucketsReduced, usesAll ? 3U : 2U);
        EXPECT_EQ(training.firstWrong(host, 0, 3, number, 3), -1);
        EXPECT_EQ(training.firstWrong(host, 2, 3, number, 3), -1);
        if (number == 0) {
          EXPECT_EQ(host.grad(1).dataAs<float>()[3], static_cast<float>(world.rank()));
        } else {
          EXPECT_EQ(training.firstWrong(host, 1, 3, 1, 3), -1);  // of the step that had one
        }
      }
    });
  }
}

TEST_P(UnusedTest, RanksThatSkipDifferentBucketsAreTold) {
  inWorld(2, [](Group world) {
    Training<float> training({3, 4});
    GradBuffers host(2);
    ReducerOptions options = findUnused(GetParam());
    options.skipAllReduceUnusedParams = true;
    Reducer reducer(world, training.params, {{1}, {0}}, host, options);
    const std::vector<std::size_t> unused = {world.rank() == 0 ? 0U : 1U};
    const auto facts = errorOf<DistBackendError>([&] {
      reducer.beginBackward(unused);
      reducer.markReady(1 - unused[0]);
      reducer.finish();
    });
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->reason, Reason::MISMATCH);
  });
}

TEST(UnusedErrorTest, UnusedParametersAreNamedOnlyWhereTheyAreLookedFor) {
  inWorld(1, [](Group world) {
    Training<float> training({2});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host);
    const std::vector<std::size_t> unused = {0};
    EXPECT_THAT(textOf<UsageError>([&] { reducer.beginBackward(unused); }),
                HasSubstr("findUnusedParameters is not set"));
    EXPECT_THAT(textOf<UsageError>([&] {
                  Reducer(world, training.params, {{0}}, host, {.markMissingAsUnused = true});
                }),
                HasSubstr("needs findUnusedParameters"));
  });
}

TEST(UnusedErrorTest, BucketsThatAreSkippedCannotBeJoined) {
  inWorld(1, [](Group world) {
    Training<float> training({2});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host, {.skipAllReduceUnusedParams = true});
    EXPECT_THAT(textOf<UsageError>([&] { Join(reducer, {}); }), HasSubstr("cannot be joined"));
  });
}

TEST(UnusedErrorTest, WhatWasSaidToBeUnusedCannotBeReady) {
  inWorld(1, [](Group world) {
    Training<float> training({2, 2});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{0, 1}}, host, findUnused(false));
    const std::vector<std::size_t> unused = {1};
    reducer.beginBackward(unused);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(1); }),
                HasSubstr("beginBackward() was told that it is unused"));
    const std::vector<std::size_t> beyond = {2};
    reducer.resetState();
    EXPECT_THAT(textOf<UsageError>([&] { reducer.beginBackward(beyond); }),
                HasSubstr("parameter 2 cannot be unused"));
  });
}

class StaticGraphTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Views, StaticGraphTest, ::testing::Bool());

TEST_P(StaticGraphTest, AParameterIsReadyWhenMarkedAsOftenAsInTheFirstStep) {
  inWorld(2, [](Group world) {
    Training<float> training({2, 3, 4});
    GradBuffers host(3);
    Reducer reducer(
        world, training.params, {{2, 1, 0}}, host,
        {.firstBucketBytesCap = 1, .gradientAsBucketView = GetParam(), .staticGraph = true});
    for (int number = 0; number < 4; ++number) {
      EXPECT_EQ(reducer.rebuildBuckets(), number == 2);
      reducer.beginBackward();
      // Parameter 0 gets its gradient in two parts, 1 in one, 2 never.
      EXPECT_EQ(reducer.markReady(0), Ready::PENDING);
      training.compute(host, 1, world.rank(), number);
      reducer.markReady(1);
      training.compute(host, 0, world.rank(), number);
      const Ready last = reducer.markReady(0);
      EXPECT_EQ(last, number == 0 ? Ready::PENDING : Ready::ALL_LAUNCHED);
      reducer.finish();

      EXPECT_EQ(training.firstWrong(host, 0, 2, number, 2), -1) << "step " << number;
      EXPECT_EQ(training.firstWrong(host, 1, 2, number, 2), -1) << "step " << number;
      EXPECT_FALSE(host.grad(2).defined());
    }
    EXPECT_EQ(reducer.buckets(), (BucketIndices{{1}, {0, 2}}));
  });
}

TEST(StaticGraphErrorTest, AStepThatDiffersIsTold) {
  inWorld(1, [](Group world) {
    Training<float> training({2, 3});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{0, 1}}, host, {.staticGraph = true});
    reducer.beginBackward();
    reducer.markReady(0);
    reducer.finish();

    reducer.beginBackward();
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(1); }),
                HasSubstr("Your training graph has changed in this iteration: layer1"));
    EXPECT_THAT(textOf<UsageError>([&] { reducer.finish(); }), HasSubstr("layer0"));
  });
}

TEST(StaticGraphErrorTest, StepsThatAccumulateAreNotCounted) {
  inWorld(2, [](Group world) {
    Training<float> training({2});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host, {.staticGraph = true});
    for (const bool sync : {false, false, true, true}) {
      reducer.beginBackward({}, sync);
      training.compute(host, 0, world.rank(), 0);
      reducer.markReady(0);
      reducer.finish();
    }
    EXPECT_EQ(training.firstWrong(host, 0, 2, 0, 2), -1);
  });
}

}  // namespace
}  // namespace unisono
