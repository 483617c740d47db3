#include "unisono/ddp/comm_hook.hpp"

#include <complex>
#include <functional>
#include <gmock/gmock.h>

#include "unisono/ddp/reducer.hpp"

#include "base/wait.hpp"
#include "ddp/training.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::inWorld;
using test::textOf;
using test::Training;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class FunctionHook final : public CommHook {
 public:
  using Function = std::function<Future(GradBucket&)>;
  explicit FunctionHook(Function function) : function_(std::move(function)) {}
  Future run(GradBucket& bucket) override { return function_(bucket); }

 private:
  Function function_;
};

/// Three parameters in two buckets.
struct Trainee {
  explicit Trainee(const Group& world, bool views = false)
      : reducer(world, training.params, {{2, 1}, {0}}, host, {.gradientAsBucketView = views}) {}

  void hook(FunctionHook::Function function) {
    reducer.registerCommHook(std::make_shared<FunctionHook>(std::move(function)));
  }
  void step(int rank, int number = 0) {
    reducer.beginBackward();
    for (const std::size_t param : {2U, 1U, 0U}) {
      training.compute(host, param, rank, number);
      reducer.markReady(param);
    }
    reducer.finish();
  }
  void expectAverages(int ranks, int number = 0) {
    for (std::size_t param = 0; param < 3; ++param) {
      EXPECT_EQ(training.firstWrong(host, param, ranks, number, ranks), -1) << param;
    }
  }

  Training<float> training{{3, 1000, 5}};
  GradBuffers host{3};
  Reducer reducer;
};

Future average(Group& group, const Tensor& row) {
  return group.allReduce(row, {.op = ReduceOp::AVG, .async = true})->getFuture();
}

class BuiltinHookTest : public ::testing::TestWithParam<BuiltinCommHookType> {};
INSTANTIATE_TEST_SUITE_P(Types, BuiltinHookTest,
                         ::testing::Values(BuiltinCommHookType::ALLREDUCE,
                                           BuiltinCommHookType::FP16_COMPRESS));

TEST_P(BuiltinHookTest, GivesTheAverage) {
  for (const bool views : {false, true}) {
    inWorld(4, [&](Group world) {
      Trainee trainee(world, views);
      trainee.reducer.registerBuiltinCommHook(GetParam());
      for (int number = 0; number < 3; ++number) {
        trainee.reducer.rebuildBuckets();
        trainee.step(world.rank(), number);
        trainee.expectAverages(4, number);
      }
    });
  }
}

TEST(Fp16CompressTest, RoundsAsFloat16Does) {
  inWorld(2, [](Group world) {
    std::vector<double> value(1);
    std::vector<double> gradient(1, 1.0 / 3.0);
    GradBuffers host(1);
    host.set(0, Tensor(gradient));
    Reducer reducer(world, {{Tensor(value), "w"}}, {{0}}, host);
    reducer.registerBuiltinCommHook(BuiltinCommHookType::FP16_COMPRESS);
    reducer.beginBackward();
    reducer.markReady(0);
    reducer.finish();
    EXPECT_EQ(gradient[0], static_cast<double>(static_cast<float>(Half(1.0F / 3.0F))));
  });
}

TEST(Fp16CompressTest, IsRefusedForComplexParameters) {
  inWorld(1, [](Group world) {
    std::vector<std::complex<float>> value(1);
    GradBuffers host(1);
    Reducer reducer(world, {{Tensor(value), "phase"}}, {{0}}, host);
    EXPECT_THAT(textOf<UsageError>(
                    [&] { reducer.registerBuiltinCommHook(BuiltinCommHookType::FP16_COMPRESS); }),
                HasSubstr("phase (parameter 0)"));
  });
}

TEST(CommHookTest, AnotherTensorMayTakeThePlaceOfTheBuffer) {
  for (const bool views : {false, true}) {
    inWorld(2, [&](Group world) {
      Trainee trainee(world, views);
      trainee.hook([&](GradBucket& bucket) {
        const auto copy = std::make_shared<std::vector<float>>(
            bucket.buffer().dataAs<float>(),
            bucket.buffer().dataAs<float>() + bucket.buffer().numel());
        return average(world,
                       Tensor(copy->data(), DType::FLOAT32, {bucket.buffer().numel()}, {}, copy));
      });
      trainee.step(world.rank());
      trainee.expectAverages(2);
    });
  }
}

TEST(CommHookTest, AContinuationMayStartAndAwaitAnotherOperation) {
  inWorld(2, [](Group world) {
    Trainee trainee(world);
    std::optional<Group> second = world.split(0);
    trainee.hook([&](GradBucket& bucket) {
      return average(world, bucket.buffer()).then([&](const Future& done) -> TensorList {
        std::vector<float> more = {1};
        second->allReduce(more);
        EXPECT_EQ(more[0], 2.0F);
        return done.value();
      });
    });
    trainee.step(world.rank());
    trainee.expectAverages(2);
  });
}

TEST(CommHookTest, SeesGradientsLaidOutAsTheirParameters) {
  inWorld(1, [](Group world) {
    std::vector<float> memory(6);
    std::vector<float> flat(2);
    std::vector<float> rows = {0, 1, 2, 3, 4, 5};
    std::vector<float> two = {6, 7};
    GradBuffers host(2);
    host.set(0, Tensor(rows.data(), DType::FLOAT32, {2, 3}));
    host.set(1, Tensor(two));
    const Tensor columnMajor(memory.data(), DType::FLOAT32, {2, 3}, {1, 2});
    Reducer reducer(world, {{columnMajor, "w"}, {Tensor(flat), "b"}}, {{1, 0}}, host);
    reducer.registerCommHook(std::make_shared<FunctionHook>([&](GradBucket& bucket) {
      EXPECT_THAT(bucket.gradients(), SizeIs(2));
      EXPECT_EQ(bucket.gradients()[0].dataAs<float>()[1], 7.0F);
      EXPECT_EQ(bucket.gradients()[1].strides(), columnMajor.strides());
      EXPECT_EQ(bucket.gradients()[1].dataAs<float>()[2], 1.0F);  // row 0, column 1
      EXPECT_EQ(bucket.parameters()[1].data(), memory.data());
      return Future::ready(bucket.buffer());
    }));
    reducer.beginBackward();
    reducer.markReady(0);
    reducer.markReady(1);
    reducer.finish();
  });
}

TEST(CommHookTest, IsRegisteredOnce) {
  inWorld(1, [](Group world) {
    Trainee trainee(world);
    EXPECT_THROW(trainee.reducer.registerCommHook(nullptr), UsageError);
    trainee.reducer.registerBuiltinCommHook(BuiltinCommHookType::ALLREDUCE);
    EXPECT_THAT(textOf<UsageError>([&] {
                  trainee.reducer.registerBuiltinCommHook(BuiltinCommHookType::ALLREDUCE);
                }),
                HasSubstr("can only be called once"));
  });
}

TEST(CommHookErrorTest, AWrongSizeOrTypeIsToldAndTheRanksStayInStep) {
  inWorld(2, [](Group world) {
    Trainee trainee(world);
    std::vector<TensorList> wrong;
    std::vector<float> few(4);
    std::vector<double> many(1005);
    wrong.emplace_back(Tensor(few));
    wrong.emplace_back(Tensor(many));
    wrong.emplace_back(TensorList{});
    wrong.emplace_back(Tensor());
    std::size_t at = 0;
    trainee.hook([&](GradBucket& bucket) {
      return average(world, bucket.buffer()).then([&, bucket](const Future& done) -> TensorList {
        return bucket.index() == 0 && at < wrong.size() ? wrong[at] : done.value();
      });
    });
    for (const char* text : {"gave float32[4] for bucket 0, which is float32[1005]",
                             "gave float64[1005]", "gave 0 tensors", "gave no tensor"}) {
      EXPECT_THAT(textOf<UsageError>([&] { trainee.step(world.rank()); }), HasSubstr(text));
      ++at;
    }
    trainee.step(world.rank());
    trainee.expectAverages(2);
  });
}

TEST(CommHookErrorTest, AHookThatThrowsEndsTheStepOnAllRanks) {
  std::vector<std::string> told(3);
  inWorld(3, [&](Group world) {
    Trainee trainee(world);
    trainee.hook([&](GradBucket& bucket) {
      if (world.rank() == 1 && bucket.index() == 1) {
        throw std::runtime_error("out of paper");
      }
      return average(world, bucket.buffer());
    });
    std::string& text = told[static_cast<std::size_t>(world.rank())];
    text = textOf<DistError>([&] { trainee.step(world.rank()); });
    if (world.rank() == 1) {  // told again at the end of the step that is still open
      EXPECT_THAT(textOf<DistError>([&] { trainee.reducer.finish(); }), HasSubstr("out of paper"));
    }
  });
  EXPECT_THAT(told[1], AllOf(HasSubstr("the communication hook threw for bucket 1: out of paper"),
                             HasSubstr("[USAGE]"), HasSubstr("rank=1/3")));
  for (const std::size_t other : {0U, 2U}) {
    EXPECT_THAT(told[other], AllOf(HasSubstr("out of paper"), HasSubstr("culprits=[1]")));
  }
}

TEST(CommHookErrorTest, AfterAHookThrewAReducerGoesOnWithANewGroup) {
  inWorld(2, [](Group world) {
    std::optional<Group> first = world.split(0);
    Trainee trainee(*first);
    std::optional<Group> second = world.split(0);
    bool isBad = true;
    trainee.hook([&](GradBucket& bucket) {
      if (isBad) {
        throw 7;  // NOLINT: anything can be thrown
      }
      return average(*second, bucket.buffer());
    });
    EXPECT_THROW(trainee.step(world.rank()), DistError);

    isBad = false;
    trainee.reducer.resetState(second);
    trainee.step(world.rank());
    trainee.expectAverages(2);
  });
}

TEST(CommHookErrorTest, ABuiltInHookGoesAlongToTheNewGroup) {
  inWorld(2, [](Group world) {
    std::optional<Group> first = world.split(0);
    Trainee trainee(*first);
    trainee.reducer.registerBuiltinCommHook(BuiltinCommHookType::FP16_COMPRESS);
    trainee.step(world.rank());
    trainee.reducer.resetState(world.split(0));
    first->processGroup().abort();
    trainee.step(world.rank(), 1);
    trainee.expectAverages(2, 1);
  });
}

TEST(CommHookErrorTest, AFutureThatFailsFailsTheStep) {
  inWorld(2, [](Group world) {
    Trainee trainee(world);
    bool isBad = true;
    trainee.hook([&](GradBucket& bucket) {
      return average(world, bucket.buffer()).then([&](const Future& done) -> TensorList {
        if (isBad) {
          throw std::runtime_error("no ink");
        }
        return done.value();
      });
    });
    EXPECT_THROW(trainee.step(world.rank()), std::runtime_error);

    isBad = false;
    trainee.step(world.rank());
    trainee.expectAverages(2);
  });
}

TEST(CommHookErrorTest, ARankWhoseHookFailedByItselfRebuildsBucketsWithTheOthers) {
  inWorld(2, [](Group world) {
    Trainee trainee(world);
    bool isBad = world.rank() == 1;
    trainee.hook([&](GradBucket& bucket) {
      const Future done = average(world, bucket.buffer());
      return isBad ? done.then([](const Future&) { return TensorList(); }) : done;
    });
    if (isBad) {
      EXPECT_THROW(trainee.step(world.rank()), UsageError);
    } else {
      trainee.step(world.rank());
    }
    isBad = false;
    EXPECT_TRUE(trainee.reducer.rebuildBuckets());
    trainee.step(world.rank());
    trainee.expectAverages(2);
  });
}

TEST(CommHookErrorTest, AFutureThatNobodyCompletesIsNotWaitedForForever) {
  inWorld(1,
          [](Group world) {
            Trainee trainee(world);
            trainee.hook([](GradBucket&) { return Future(); });
            EXPECT_THAT(textOf<DistTimeoutError>([&] { trainee.step(world.rank()); }),
                        HasSubstr("has not completed bucket 0 within 100ms"));
          },
          {.timeout = 50ms});
}

struct Interrupt {};
thread_local int interrupts = 0;  // that are still to come, on this thread

TEST(CommHookErrorTest, AnInterruptEndsTheWaitAtOnceAndFinishMayBeCalledAgain) {
  inWorld(1, [](Group world) {
    Trainee trainee(world);
    std::vector<std::pair<Future, Tensor>> pending;
    trainee.hook(
        [&](GradBucket& bucket) { return pending.emplace_back(Future(), bucket.buffer()).first; });
    setInterruptHook([] {
      if (interrupts > 0) {
        --interrupts;
        throw Interrupt();
      }
    });
    interrupts = 1;  // no more: each of the two buckets would need one, were it waited for
    EXPECT_THROW(trainee.step(world.rank()), Interrupt);

    for (auto& [future, buffer] : pending) {
      future.setValue(buffer);
    }
    trainee.reducer.finish();
    trainee.expectAverages(1);
    setInterruptHook(nullptr);
  });
}

}  // namespace
}  // namespace unisono
