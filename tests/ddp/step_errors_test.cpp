// What is told when a step goes wrong.
#include <gmock/gmock.h>
#include <unistd.h>

#include "unisono/ddp/reducer.hpp"
#include "unisono/store/file_store.hpp"

#include "ddp/training.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"
#include "support/server_process.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::errorOf;
using test::inWorld;
using test::textOf;
using test::Training;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const BucketIndices kTwoBuckets = {{2, 1}, {0}};

TEST(StepErrorsTest, AGradientThatNeverCameIsNamedOnAllRanks) {
  std::vector<std::string> told(3);
  inWorld(3, [&](Group world) {
    Training<float> training({1, 2, 3});
    GradBuffers host(3);
    Reducer reducer(world, training.params, kTwoBuckets, host);
    reducer.beginBackward();
    for (std::size_t param = world.rank() == 1 ? 1 : 0; param < 3; ++param) {
      reducer.markReady(param);
    }
    told[static_cast<std::size_t>(world.rank())] = textOf<DistError>([&] { reducer.finish(); });
  });
  EXPECT_THAT(told[1],
              AllOf(HasSubstr("1 of 3 parameters did not receive grad for rank 1: layer0."),
                    HasSubstr("Parameter indices which did not receive grad for rank 1: 0"),
                    HasSubstr("bucket 1, the last, waits for them"),
                    HasSubstr("passing the keyword argument `find_unused_parameters=True`"),
                    HasSubstr("culprits=[1]")));
  for (const std::size_t other : {0U, 2U}) {
    EXPECT_THAT(told[other], AllOf(HasSubstr("layer0"), HasSubstr("culprits=[1]")));
  }
}

TEST(StepErrorsTest, WhatAllRanksMissEachOfThemNames) {
  inWorld(2, [](Group world) {
    Training<float> training({1, 2, 3});
    GradBuffers host(3);
    Reducer reducer(world, training.params, kTwoBuckets, host, {.findUnusedParameters = true});
    reducer.beginBackward();
    reducer.markReady(2);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.finish(); }),
                AllOf(HasSubstr("layer0, layer1"), HasSubstr("buckets 0 to 1 wait"),
                      HasSubstr("Since `find_unused_parameters=True` is enabled")));
  });
}

TEST(StepErrorsTest, AGradientThatComesTwiceIsNamed) {
  inWorld(2, [](Group world) {
    Training<float> training({1, 2, 3});
    GradBuffers host(3);
    Reducer reducer(world, training.params, kTwoBuckets, host);
    reducer.beginBackward();
    reducer.markReady(1);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(1); }),
                AllOf(HasSubstr("Expected to mark a variable ready only once."),
                      HasSubstr("Parameter at index 1 with name layer1 has been marked as ready "
                                "twice")));
    reducer.markReady(2);  // its bucket is launched
    EXPECT_THROW(reducer.markReady(2), UsageError);
    reducer.markReady(0);
    EXPECT_THROW(reducer.markReady(0), UsageError);

    reducer.finish();  // nothing was lost
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(0); }),
                AllOf(HasSubstr("layer0 (parameter 0)"), HasSubstr("outside a step")));
    EXPECT_THAT(textOf<UsageError>([&] { reducer.finish(); }), HasSubstr("outside a step"));
  });
}

TEST(StepErrorsTest, AStepThatWasNotFinishedIsToldWhenTheNextBegins) {
  inWorld(1, [](Group world) {
    Training<float> training({1, 2, 3});
    GradBuffers host(3);
    Reducer reducer(world, training.params, kTwoBuckets, host);
    reducer.beginBackward();
    reducer.markReady(0);
    const auto expected =
        AllOf(HasSubstr("Expected to have finished reduction in the prior iteration"),
              HasSubstr("layer1, layer2"));
    EXPECT_THAT(textOf<UsageError>([&] { reducer.beginBackward(); }), expected);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.rebuildBuckets(); }), expected);

    reducer.resetState();
    reducer.beginBackward();
    for (const std::size_t param : {0U, 1U, 2U}) {
      reducer.markReady(param);
    }
    reducer.finish();
  });
}

TEST(StepErrorsTest, AGradientThatDoesNotLookLikeItsParameterIsRefused) {
  inWorld(2, [](Group world) {
    Training<float> training({4});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host);
    std::vector<double> doubles(4);
    std::vector<float> five(5);
    reducer.beginBackward();
    host.set(0, Tensor(doubles));
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(0); }),
                HasSubstr("layer0 (parameter 0) does not look like it: Expected float32[4], got "
                          "float64[4]"));
    host.set(0, Tensor(five));
    EXPECT_THROW(reducer.markReady(0), UsageError);
    EXPECT_THROW(reducer.markReady(1), UsageError);

    training.compute(host, 0, world.rank(), 0);
    host.set(0, Tensor());
    reducer.markReady(0);
    reducer.finish();
  });
}

TEST(StepErrorsTest, AViewThatWasReplacedIsTold) {
  inWorld(1, [](Group world) {
    Training<float> training({4});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host, {.gradientAsBucketView = true});
    std::vector<float> another(4);
    reducer.beginBackward();
    training.compute(host, 0, 0, 0);
    reducer.markReady(0);
    host.set(0, Tensor(another));
    EXPECT_THAT(textOf<UsageError>([&] { reducer.finish(); }),
                HasSubstr("gradient is not the expected DDP bucket view"));
  });
}

TEST(StepErrorsTest, BucketsThatDoNotFitAreRefused) {
  inWorld(1, [](Group world) {
    std::vector<float> floats(2);
    std::vector<double> doubles(2);
    std::vector<std::int32_t> numbers(2);
    const std::vector<Param> params = {{Tensor(floats), "a"}, {Tensor(doubles), "b"}};
    GradBuffers host(2);
    const auto refusal = [&](const std::vector<Param>& which, const BucketIndices& buckets) {
      return textOf<UsageError>([&] { Reducer(world, which, buckets, host); });
    };
    EXPECT_THAT(refusal({}, {}), HasSubstr("no parameters"));
    EXPECT_THAT(refusal(params, {{0, 1}}),
                HasSubstr("a (parameter 0) is float32[2], b (parameter 1) is float64[2]"));
    EXPECT_THAT(refusal(params, {{0}}), HasSubstr("b (parameter 1) is in no bucket"));
    EXPECT_THAT(refusal(params, {{0}, {1}, {}}), HasSubstr("bucket 2 is empty"));
    EXPECT_THAT(refusal(params, {{0}, {1}, {0}}), HasSubstr("in two buckets"));
    EXPECT_THAT(refusal(params, {{0}, {1}, {2}}), HasSubstr("parameter 2, but there are 2"));
    EXPECT_THAT(refusal({{Tensor(numbers), "count"}}, {{0}}), HasSubstr("have no average"));
    EXPECT_THAT(refusal({{Tensor(), "gone"}}, {{0}}), HasSubstr("is no tensor"));
  });
}

TEST(StepErrorsTest, ABucketLargerThanMemoryIsTold) {
#ifdef UNISONO_SANITIZED
  GTEST_SKIP() << "sanitizers end the process instead";
#endif
  inWorld(1, [](Group world) {
    std::byte nowhere{};
    const Tensor huge(&nowhere, DType::FLOAT32, {std::int64_t{1} << 46});
    GradBuffers host(1);
    const auto facts = errorOf<DistError>([&] {
      Reducer(world, {{huge, "universe"}}, {{0}}, host);
    });
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->reason, Reason::RESOURCE);
    EXPECT_THAT(facts->what, HasSubstr("universe (parameter 0)"));
  });
}

/// The survivors of a rank that dies in the middle of a step.
TEST(StepProcessesTest, ARankThatDiesInAStepIsNamedToTheOthers) {
  const test::TempDir folder;
  std::vector<std::unique_ptr<test::Process>> processes;
  for (int rank = 0; rank < 3; ++rank) {
    processes.push_back(std::make_unique<test::Process>([&folder, rank] {
      Group world = init({.store = std::make_shared<FileStore>(folder.file("store"), 3),
                          .rank = rank,
                          .size = 3,
                          .timeout = std::chrono::seconds(60)});
      Training<float> training({1, 2000, 3});
      GradBuffers host(3);
      Reducer reducer(world, training.params, kTwoBuckets, host, {.gradientAsBucketView = true});
      try {
        for (int number = 0; number < 3; ++number) {
          reducer.rebuildBuckets();
          reducer.beginBackward();
          for (std::size_t param = 3; param-- > 0;) {
            if (rank == 2 && number == 2 && param == 0) {
              ::_exit(7);  // one bucket is under way
            }
            training.compute(host, param, rank, number);
            reducer.markReady(param);
          }
          reducer.finish();
        }
      } catch (const DistBackendError& error) {
        return error.culprits() == std::vector<int>{2} ? 0 : 1;
      }
      return 2;
    }));
  }
  EXPECT_EQ(WEXITSTATUS(processes[2]->join()), 7);
  EXPECT_EQ(WEXITSTATUS(processes[0]->join()), 0);
  EXPECT_EQ(WEXITSTATUS(processes[1]->join()), 0);
}

}  // namespace
}  // namespace unisono
