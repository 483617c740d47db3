#include "unisono/ddp/reducer.hpp"

#include <complex>
#include <gmock/gmock.h>
#include <latch>
#include <thread>

#include "ddp/training.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::inWorld;
using test::shuffled;
using test::textOf;
using test::Training;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 3;
const BucketIndices kBuckets = {{6, 5}, {4, 3, 2}, {1}, {0}};
const std::vector<std::size_t> kSizes = {1, 1023, 0, 7, 64, 4097, 3};

/// One step whose gradients come in the order `order`.
template <typename T>
void step(Training<T>& training, GradBuffers& host, Reducer& reducer, int rank, int number,
          const std::vector<std::size_t>& order) {
  reducer.beginBackward();
  for (const std::size_t param : order) {
    training.compute(host, param, rank, number);
    reducer.markReady(param);
  }
  reducer.finish();
}

template <typename T>
void expectAverages(const Training<T>& training, GradBuffers& host, int ranks, int number,
                    int users) {
  for (std::size_t param = 0; param < training.size(); ++param) {
    ASSERT_TRUE(host.grad(param).defined()) << "parameter " << param;
    EXPECT_EQ(training.firstWrong(host, param, ranks, number, users), -1)
        << "parameter " << param << ", step " << number;
  }
}

template <typename T>
void expectAverages(const Training<T>& training, GradBuffers& host, int ranks, int number) {
  expectAverages(training, host, ranks, number, ranks);
}

template <typename T>
class ReducerTypesTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16, Float8E4M3>;
TYPED_TEST_SUITE(ReducerTypesTest, Types);

TYPED_TEST(ReducerTypesTest, GivesEveryRankTheAverageWhateverOrderGradientsComeIn) {
  for (const bool views : {false, true}) {
    inWorld(4, [&](Group world) {
      Training<TypeParam> training(kSizes);
      GradBuffers host(training.size());
      Reducer reducer(world, training.params, kBuckets, host, {.gradientAsBucketView = views});
      for (int number = 0; number < 6; ++number) {
        reducer.rebuildBuckets();
        step(training, host, reducer, world.rank(), number,
             shuffled(training.size(), static_cast<unsigned>(100 * number + world.rank())));
        expectAverages(training, host, world.size(), number);
      }
      EXPECT_TRUE(reducer.hasRebuiltBuckets());
    });
  }
}

TEST(ReducerTest, ComplexGradientsHaveAverages) {
  inWorld(2, [](Group world) {
    std::vector<std::complex<float>> value(3);
    const std::complex<float> mine(static_cast<float>(world.rank()), 4);
    std::vector<std::complex<float>> gradient(3, mine);
    GradBuffers host(1);
    Reducer reducer(world, {{Tensor(value), "phase"}}, {{0}}, host);

    host.set(0, Tensor(gradient));
    reducer.beginBackward();
    reducer.markReady(0);
    reducer.finish();

    EXPECT_THAT(gradient, Each(std::complex<float>(0.5F, 4)));
  });
}

TEST(ReducerTest, LargeHalvesDoNotOverflowOnTheWay) {
  inWorld(2, [](Group world) {
    std::vector<Half> value(5);
    std::vector<Half> gradient(5, Half(32768.0F));
    GradBuffers host(1);
    Reducer reducer(world, {{Tensor(value), ""}}, {{0}}, host);
    host.set(0, Tensor(gradient));
    reducer.beginBackward();
    reducer.markReady(0);
    reducer.finish();
    EXPECT_THAT(gradient, Each(Half(32768.0F)));
  });
}

/// Notes in which order buckets are launched.
class NotingHook final : public CommHook {
 public:
  explicit NotingHook(Group group) : group_(std::move(group)) {}
  Future run(GradBucket& bucket) override {
    noted.push_back(bucket.index());
    wasLast = bucket.isLast();
    return group_.allReduce(bucket.buffer(), {.op = ReduceOp::AVG, .async = true})->getFuture();
  }
  std::vector<std::size_t> noted;
  bool wasLast = false;

 private:
  Group group_;
};

TEST(ReducerTest, LaunchesBucketsInTheSameOrderOnAllRanks) {
  inWorld(kRanks, [](Group world) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      Training<float> training(kSizes);
      GradBuffers host(training.size());
      Reducer reducer(world, training.params, kBuckets, host);
      const auto hook = std::make_shared<NotingHook>(world);
      reducer.registerCommHook(hook);

      step(training, host, reducer, world.rank(), 0,
           shuffled(training.size(), 10 * seed + static_cast<unsigned>(world.rank())));

      EXPECT_THAT(hook->noted, ElementsAre(0, 1, 2, 3)) << "seed " << seed;
      EXPECT_TRUE(hook->wasLast);
      expectAverages(training, host, kRanks, 0);
    }
  });
}

TEST(ReducerTest, SaysWhenBucketsAreLaunched) {
  inWorld(1, [](Group world) {
    Training<float> training({1, 2, 3});
    GradBuffers host(3);
    Reducer reducer(world, training.params, {{0, 1}, {2}}, host);
    reducer.beginBackward();

    EXPECT_EQ(reducer.markReady(2), Ready::PENDING);
    EXPECT_EQ(reducer.markReady(1), Ready::PENDING);
    EXPECT_EQ(reducer.markReady(0), Ready::ALL_LAUNCHED);
    reducer.finish();
    EXPECT_THAT(reducer.gradReadyOrder(), ElementsAre(2, 1, 0));

    reducer.beginBackward();
    reducer.markReady(0);
    EXPECT_EQ(reducer.markReady(1), Ready::BUCKET_LAUNCHED);
    EXPECT_EQ(reducer.markReady(2), Ready::ALL_LAUNCHED);
    reducer.finish();
  });
}

TEST(ReducerTest, ABucketIsReducedWhileLaterGradientsAreComputed) {
  // Rank 1 computes its second gradient only when rank 0's first bucket has ended.
  std::latch firstHasEnded(1);
  class Hook final : public CommHook {
   public:
    Hook(Group group, std::latch& ended) : group_(std::move(group)), ended_(ended) {}
    Future run(GradBucket& bucket) override {
      const Future done = group_.allReduce(bucket.buffer(), {.async = true})->getFuture();
      if (bucket.index() == 0 && group_.rank() == 0) {
        done.addCallback([&ended = ended_](const Future&) { ended.count_down(); });
      }
      return done;
    }

   private:
    Group group_;
    std::latch& ended_;
  };
  inWorld(2, [&](Group world) {
    Training<float> training({5, 6});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{0}, {1}}, host);
    reducer.registerCommHook(std::make_shared<Hook>(world, firstHasEnded));
    reducer.beginBackward();
    reducer.markReady(0);
    firstHasEnded.wait();
    reducer.markReady(1);
    reducer.finish();
  });
}

TEST(ReducerTest, TakesMarksFromSeveralThreads) {
  inWorld(2, [](Group world) {
    Training<float> training(std::vector<std::size_t>(64, 33));
    GradBuffers host(training.size());
    BucketIndices buckets;
    for (std::size_t param = 0; param < 64; ++param) {
      if (param % 4 == 0) {
        buckets.emplace_back();
      }
      buckets.back().push_back(param);
    }
    Reducer reducer(world, training.params, buckets, host, {.gradientAsBucketView = true});
    for (int number = 0; number < 3; ++number) {
      reducer.beginBackward();
      const auto thrown = test::onThreads(8, [&](int thread) {
        for (std::size_t param = static_cast<std::size_t>(thread); param < 64; param += 8) {
          training.compute(host, param, world.rank(), number);
          reducer.markReady(param);
        }
      });
      EXPECT_THAT(thrown, Each(std::exception_ptr()));
      reducer.finish();
      expectAverages(training, host, 2, number);
    }
  });
}

TEST(ReducerTest, RebuildsBucketsAsGradientsOfRankZeroCame) {
  inWorld(kRanks, [](Group world) {
    Training<float> training({10, 10, 10, 10});
    GradBuffers host(4);
    Reducer reducer(world, training.params, {{0, 1, 2, 3}}, host,
                    {.bucketBytesCap = 80, .firstBucketBytesCap = 40});
    EXPECT_FALSE(reducer.rebuildBuckets());  // nothing is known yet

    const std::vector<std::size_t> order = {2, 0, 3, 1};
    step(training, host, reducer, world.rank(), 0,
         world.rank() == 0 ? order : std::vector<std::size_t>{0, 1, 2, 3});

    EXPECT_TRUE(reducer.rebuildBuckets());
    EXPECT_EQ(reducer.buckets(), (BucketIndices{{2}, {0, 3}, {1}}));
    EXPECT_FALSE(reducer.rebuildBuckets());  // once
    step(training, host, reducer, world.rank(), 1, order);
    expectAverages(training, host, kRanks, 1);
  });
}

TEST(ReducerTest, RebuildsByAListOfLimitsAndKeepsTypesApart) {
  inWorld(2, [](Group world) {
    std::vector<float> floats(10);
    std::vector<double> doubles(10);
    const std::vector<Param> params = {
        {Tensor(floats), "a"}, {Tensor(doubles), "b"}, {Tensor(floats), "c"}};
    GradBuffers host(3);
    Reducer reducer(world, params, {{0, 2}, {1}}, host, {.bucketBytesCapList = {40, 80}});
    reducer.beginBackward();
    for (const std::size_t param : {2U, 1U, 0U}) {
      reducer.markReady(param);  // without a gradient: it becomes 0
    }
    reducer.finish();
    EXPECT_TRUE(reducer.rebuildBuckets());
    EXPECT_EQ(reducer.buckets(), (BucketIndices{{2}, {1}, {0}}));
    EXPECT_EQ(host.grad(1).dataAs<double>()[9], 0.0);
  });
}

TEST(ReducerTest, GradientsThatAreViewsMoveWithTheirBuckets) {
  inWorld(2, [](Group world) {
    Training<float> training({3, 5});
    GradBuffers host(2);
    training.compute(host, 0, world.rank(), 1);  // there is one already
    Reducer reducer(world, training.params, {{0, 1}}, host,
                    {.firstBucketBytesCap = 1, .gradientAsBucketView = true});
    EXPECT_EQ(host.grad(0).dataAs<float>()[1],
              (Training<float>::gradientOf(world.rank(), 1, 0, 1)));
    EXPECT_FALSE(host.grad(1).defined());

    step(training, host, reducer, world.rank(), 0, {1, 0});
    const void* before = host.grad(0).data();
    EXPECT_TRUE(reducer.rebuildBuckets());
    EXPECT_NE(host.grad(0).data(), before);
    expectAverages(training, host, 2, 0);  // not lost

    host.set(0, Tensor());  // "none" between steps costs a copy
    step(training, host, reducer, world.rank(), 1, {1, 0});
    expectAverages(training, host, 2, 1);
  });
}

TEST(ReducerTest, StridedParametersKeepTheirLayout) {
  for (const bool views : {false, true}) {
    inWorld(2, [&](Group world) {
      std::vector<float> memory(6);
      std::vector<float> rows(6);  // the gradient has another layout: C order
      std::iota(rows.begin(), rows.end(), static_cast<float>(10 * world.rank()));
      const Tensor columnMajor(memory.data(), DType::FLOAT32, {2, 3}, {1, 2});
      GradBuffers host(1);
      Reducer reducer(world, {{columnMajor, "weight"}}, {{0}}, host,
                      {.gradientAsBucketView = views});
      host.set(0, Tensor(rows.data(), DType::FLOAT32, {2, 3}));

      reducer.beginBackward();
      reducer.markReady(0);
      reducer.finish();

      const Tensor grad = host.grad(0);
      EXPECT_EQ(grad.isContiguous(), !views);  // a view of the bucket is laid out as the parameter
      for (std::size_t row = 0; row < 2; ++row) {
        for (std::size_t column = 0; column < 3; ++column) {
          const std::size_t at = views ? row + 2 * column : 3 * row + column;
          EXPECT_EQ(grad.dataAs<float>()[at], 5.0F + static_cast<float>(3 * row + column));
        }
      }
    });
  }
}

TEST(ReducerTest, AccumulatesWithoutTheOthersUntilAStepIsReduced) {
  for (const bool views : {false, true}) {
    inWorld(2, [&](Group world) {
      std::vector<float> value(3);
      std::vector<float> gradient(3);
      GradBuffers host(1);
      host.set(0, Tensor(gradient));
      Reducer reducer(world, {{Tensor(value), "w"}}, {{0}}, host, {.gradientAsBucketView = views});
      for (int micro = 0; micro < 3; ++micro) {
        reducer.beginBackward({}, micro == 2);
        for (std::size_t i = 0; i < 3; ++i) {
          host.grad(0).dataAs<float>()[i] += static_cast<float>(world.rank() + 1);
        }
        EXPECT_EQ(reducer.markReady(0), micro == 2 ? Ready::ALL_LAUNCHED : Ready::IGNORED);
        reducer.finish();
        const float expected =
            micro == 2 ? 4.5F : static_cast<float>((micro + 1) * (world.rank() + 1));
        EXPECT_EQ(host.grad(0).dataAs<float>()[2], expected);
      }
    });
  }
}

TEST(ReducerTest, AStepInWhichNothingWasMarkedIsForgotten) {
  inWorld(2, [](Group world) {
    Training<float> training({4});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host);
    reducer.beginBackward();
    reducer.beginBackward();  // the outputs of the first were not used
    reducer.beginBackward({}, false);
    reducer.finish();
    step(training, host, reducer, world.rank(), 0, {0});
    expectAverages(training, host, 2, 0);
  });
}

}  // namespace
}  // namespace unisono
