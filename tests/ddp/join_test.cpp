// Ranks of which some have more inputs than others.
#include "unisono/ddp/join.hpp"

#include <algorithm>
#include <gmock/gmock.h>

#include "unisono/ddp/data_parallel.hpp"
#include "unisono/ddp/logger.hpp"

#include "ddp/training.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::inWorld;
using test::textOf;
using test::Training;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// How many inputs each rank has, and how its gradients are averaged.
struct Uneven {
  std::vector<int> inputs;
  bool divideByInitialWorldSize = true;
  bool views = false;
  bool findUnused = false;
  bool isStatic = false;

  int ranks() const { return static_cast<int>(inputs.size()); }
  int most() const { return *std::max_element(inputs.begin(), inputs.end()); }
  int active(int step) const {
    return static_cast<int>(
        std::count_if(inputs.begin(), inputs.end(), [&](int count) { return count > step; }));
  }
  /// Of a gradient that is the rank's number, from 1, times that of the step.
  float averageOf(int step) const {
    float sum = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (inputs[static_cast<std::size_t>(rank)] > step) {
        sum += static_cast<float>((rank + 1) * (step + 1));
      }
    }
    return sum / static_cast<float>(divideByInitialWorldSize ? ranks() : active(step));
  }
};

void PrintTo(const Uneven& uneven, std::ostream* os) {
  for (const int inputs : uneven.inputs) {
    *os << inputs << " ";
  }
  *os << (uneven.divideByInitialWorldSize ? "by all" : "by active")
      << (uneven.views ? ", views" : "") << (uneven.findUnused ? ", finding unused" : "")
      << (uneven.isStatic ? ", static" : "");
}

class JoinInputsTest : public ::testing::TestWithParam<Uneven> {};
INSTANTIATE_TEST_SUITE_P(
    Inputs, JoinInputsTest,
    ::testing::Values(Uneven{{5, 4, 2, 2}}, Uneven{{5, 4, 2, 2}, false}, Uneven{{1, 5}, false},
                      Uneven{{0, 3}}, Uneven{{0, 3}, true, true}, Uneven{{4, 0, 0, 2}, false, true},
                      Uneven{{3, 3}, false}, Uneven{{3, 1}, true, true, true},
                      Uneven{{1, 4}, false, false, true}, Uneven{{2, 4}, true, false, false, true},
                      Uneven{{0, 0}}, Uneven{{7}, false}));

TEST_P(JoinInputsTest, EveryStepHasTheAverageOfThoseWhoHaveInputsAndAllEndAlike) {
  const Uneven& uneven = GetParam();
  inWorld(uneven.ranks(), [&](Group world) {
    Training<float> training({3, 5, 1});
    GradBuffers host(3);
    Reducer reducer(world, training.params, {{2, 1, 0}}, host,
                    {.firstBucketBytesCap = 1,
                     .findUnusedParameters = uneven.findUnused,
                     .gradientAsBucketView = uneven.views,
                     .staticGraph = uneven.isStatic});
    Join join(reducer, {.divideByInitialWorldSize = uneven.divideByInitialWorldSize});
    std::vector<std::vector<float>> memory = {std::vector<float>(3), std::vector<float>(5),
                                              std::vector<float>(1)};
    const int inputs = uneven.inputs[static_cast<std::size_t>(world.rank())];
    for (int step = 0; step < inputs; ++step) {
      join.begin();
      reducer.beginBackward();
      for (const std::size_t param : {1U, 2U, 0U}) {
        if (!host.grad(param).defined()) {
          host.set(param, Tensor(memory[param]));
        }
        const Tensor grad = host.grad(param);
        std::fill_n(grad.dataAs<float>(), grad.numel(),
                    static_cast<float>((world.rank() + 1) * (step + 1)));
        reducer.markReady(param);
      }
      reducer.finish();
      for (std::size_t param = 0; param < 3; ++param) {
        const Tensor grad = host.grad(param);
        EXPECT_EQ(grad.dataAs<float>()[grad.numel() - 1], uneven.averageOf(step))
            << "step " << step;
        training.params[param].value.dataAs<float>()[0] -= uneven.averageOf(step);
      }
      if (uneven.findUnused) {
        EXPECT_THAT(reducer.usedMap(), Each(uneven.active(step)));
      }
    }
    join.finish();

    float expected = 0;
    for (int step = 0; step < uneven.most(); ++step) {
      expected -= uneven.averageOf(step);
    }
    for (std::size_t param = 0; param < 3; ++param) {
      EXPECT_EQ(training.params[param].value.dataAs<float>()[0], expected);
      if (inputs > 0) {
        EXPECT_EQ(host.grad(param).dataAs<float>()[0], uneven.averageOf(inputs - 1))
            << "gradients stay those of the last step of this rank";
      }
    }
    const bool learned = uneven.most() > (uneven.isStatic ? 2 : 1) && !uneven.findUnused;
    EXPECT_EQ(reducer.hasRebuiltBuckets(), learned);
  });
}

TEST(JoinTest, IsOffAtItsEnd) {
  inWorld(2, [](Group world) {
    Training<float> training({4});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host);
    for (int epoch = 0; epoch < 2; ++epoch) {  // it may begin anew, too
      Join join(reducer, {.divideByInitialWorldSize = false});
      for (int step = 0; step <= world.rank(); ++step) {
        join.begin();
        reducer.beginBackward();
        training.compute(host, 0, world.rank(), 0);
        reducer.markReady(0);
        reducer.finish();
      }
      join.finish();
    }

    reducer.beginBackward();
    training.compute(host, 0, world.rank(), 1);
    reducer.markReady(0);
    reducer.finish();
    EXPECT_EQ(training.firstWrong(host, 0, 2, 1, 2), -1);
  });
}

TEST(JoinTest, StepsThatAccumulateAreNotShadowed) {
  inWorld(2, [](Group world) {
    std::vector<float> value(2);
    DataParallel model(world, {{Tensor(value), "w"}});
    Join join(model.reducer());
    const int inputs = world.rank() == 0 ? 1 : 4;
    for (int step = 0; step < inputs; ++step) {
      const bool sync = step % 2 == 0;
      join.begin(sync);
      model.begin(sync);
      if (sync) {
        model.zeroGrad();
      }
      model.grad<float>(0)[1] += static_cast<float>(world.rank() + 1);
      model.ready(0);
      model.finish();
      const std::vector<float> expected = {1.5F, 3.5F, 1.0F, 3.0F};
      EXPECT_EQ(model.grad<float>(0)[1], expected[static_cast<std::size_t>(step)]);
    }
    join.finish();
    EXPECT_EQ(model.logger().loggingData().intsMap.at("join_uneven_inputs"), 1);
  });
}

TEST(JoinTest, HooksGetZerosFromThoseWithoutInputsAndDivideByTheGroup) {
  class Hook final : public CommHook {
   public:
    explicit Hook(Group group) : average_(makeCommHook(BuiltinCommHookType::ALLREDUCE, group)) {}
    Future run(GradBucket& bucket) override {
      seen.push_back(bucket.buffer().dataAs<float>()[0]);
      return average_->run(bucket);
    }
    std::vector<float> seen;

   private:
    std::shared_ptr<CommHook> average_;
  };
  inWorld(2, [](Group world) {
    Training<float> training({2, 2});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{1}, {0}}, host, {.gradientAsBucketView = true});
    const auto hook = std::make_shared<Hook>(world);
    reducer.registerCommHook(hook);
    Join join(reducer, {.divideByInitialWorldSize = false});
    std::vector<float> memory(2, 6);
    host.set(0, Tensor(memory));
    host.set(1, Tensor(memory));
    if (world.rank() == 1) {
      join.begin();
      reducer.beginBackward();
      reducer.markReady(1);
      reducer.markReady(0);
      reducer.finish();
      EXPECT_EQ(host.grad(0).dataAs<float>()[1], 3.0F);
    }
    join.finish();
    EXPECT_THAT(hook->seen, world.rank() == 0 ? ElementsAre(0, 0) : ElementsAre(6, 6));
  });
}

TEST(JoinTest, SparseGradientsHaveNoEntriesFromThoseWithoutInputs) {
  for (const bool byAll : {true, false}) {
    inWorld(2, [&](Group world) {
      std::vector<float> table(6);
      GradBuffers host(1);
      Reducer reducer(world, {{Tensor(table.data(), DType::FLOAT32, {3, 2}), "table"}}, {{0}}, host,
                      {.expectSparseGradients = {true}});
      Join join(reducer, {.divideByInitialWorldSize = byAll});
      for (int step = 0; step < (world.rank() == 0 ? 3 : 1); ++step) {
        // Both dimensions are sparse; that a rank without inputs does the same it knows from
        // before.
        std::vector<std::int64_t> indices = {2, 1};
        std::vector<float> values = {8};
        host.setSparse(0, {Tensor(indices.data(), DType::INT64, {2, 1}), Tensor(values), {3, 2}});
        join.begin();
        reducer.beginBackward();
        reducer.markReady(0);
        reducer.finish();
        const SparseTensor grad = host.sparseGrad(0);
        ASSERT_EQ(grad.values.numel(), 1);
        EXPECT_EQ(*grad.values.dataAs<float>(), step == 0 || !byAll ? 8.0F : 4.0F);
      }
      join.finish();
      EXPECT_EQ(host.sparseGrad(0).values.numel(), 1);
    });
  }
}

TEST(JoinErrorTest, AllThrowWhenOneHasNoInputsIfThatIsAskedFor) {
  inWorld(3, [](Group world) {
    Training<float> training({2});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host);
    Join join(reducer, {.throwOnEarlyTermination = true});
    const auto step = [&] {
      join.begin();
      reducer.beginBackward();
      training.compute(host, 0, world.rank(), 0);
      reducer.markReady(0);
      reducer.finish();
    };
    step();
    EXPECT_EQ(training.firstWrong(host, 0, 3, 0, 3), -1);
    if (world.rank() == 1) {
      EXPECT_THAT(textOf<DistBackendError>([&] { join.finish(); }),
                  AllOf(HasSubstr("Rank 1 exhausted all inputs."), HasSubstr("culprits=[1]"),
                        HasSubstr("throwOnEarlyTermination")));
    } else {
      EXPECT_THAT(textOf<DistBackendError>(step),
                  AllOf(HasSubstr("Detected at least one rank that exhausted inputs."),
                        HasSubstr("rank 1"), HasSubstr("culprits=[1]"), HasSubstr("DO: ")));
    }
    step();  // nothing is broken
    join.finish();
  });
}

TEST(JoinErrorTest, AStepThatFailsForOneFailsForThoseWhoShadowIt) {
  std::vector<std::string> told(2);
  inWorld(2, [&](Group world) {
    Training<float> training({2, 2});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{0}, {1}}, host);
    Join join(reducer);
    try {
      if (world.rank() == 0) {
        join.begin();
        reducer.beginBackward();
        reducer.markReady(0);
        reducer.finish();
      }
      join.finish();
    } catch (const DistError& error) {
      told[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_THAT(told, Each(AllOf(HasSubstr("did not receive grad for rank 0: layer1"),
                               HasSubstr("culprits=[0]"))));
}

TEST(ShadowStepTest, IsRefusedWithinAStep) {
  inWorld(1, [](Group world) {
    Training<float> training({2, 2});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{0, 1}}, host);
    reducer.beginBackward();
    reducer.markReady(0);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.shadowStep(); }), HasSubstr("layer1"));
    reducer.resetState();
    reducer.beginBackward({}, false);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.shadowStep(); }),
                HasSubstr("shadowStep() was called within a step"));
  });
}

TEST(ForwardPassWorkTest, SumsAreDividedByWhatItGivesInOneStep) {
  inWorld(2, [](Group world) {
    std::vector<float> value(1);
    std::vector<float> gradient(1);
    GradBuffers host(1);
    host.set(0, Tensor(gradient));
    Reducer reducer(world, {{Tensor(value), "w"}}, {{0}}, host);
    const auto step = [&] {
      gradient[0] = 6;
      reducer.beginBackward();
      reducer.markReady(0);
      reducer.finish();
      return gradient[0];
    };
    std::vector<float> one = {1};
    reducer.setForwardPassWorkHandle(Future::ready({Tensor(one)}));
    EXPECT_EQ(step(), 12.0F);
    EXPECT_EQ(step(), 6.0F) << "only in the next step";
    reducer.setForwardPassWorkHandle(Future::ready({Tensor(one)}), true);
    EXPECT_EQ(step(), 6.0F);
    std::vector<std::int64_t> wide = {1};
    reducer.setForwardPassWorkHandle(Future::ready({Tensor(wide)}));
    EXPECT_EQ(step(), 12.0F);
  });
}

TEST(ForwardPassWorkTest, ANumberThatCannotBeRightIsRefused) {
  inWorld(1, [](Group world) {
    std::vector<float> value(1);
    std::vector<std::int32_t> two = {2};
    std::vector<double> wrong = {1};
    GradBuffers host(1);
    Reducer reducer(world, {{Tensor(value), "w"}}, {{0}}, host);
    reducer.setForwardPassWorkHandle(Future::ready({Tensor(two)}));
    reducer.beginBackward();
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(0); }),
                HasSubstr("cannot be divided by 2"));
    EXPECT_THROW(reducer.finish(), UsageError);

    reducer.setForwardPassWorkHandle(Future::ready({Tensor(wrong)}));
    reducer.beginBackward();
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(0); }), HasSubstr("float64[1]"));
    EXPECT_THROW(reducer.finish(), UsageError);
  });
}

}  // namespace
}  // namespace unisono
