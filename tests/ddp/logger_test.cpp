#include "unisono/ddp/logger.hpp"

#include <gmock/gmock.h>
#include <mutex>

#include "unisono/ddp/data_parallel.hpp"

#include "ddp/training.hpp"
#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::errorOf;
using test::inWorld;
using test::textOf;
using test::Training;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

/// Somebody who is told of all trainings, for as long as this object lives.
class UsageNotes {
 public:
  UsageNotes() {
    setDDPUsageLogger([this](const DDPLoggingData& data) {
      const std::lock_guard lock(mutex_);
      all_.push_back(data);
    });
  }
  ~UsageNotes() { setDDPUsageLogger({}); }
  UsageNotes(const UsageNotes&) = delete;
  UsageNotes& operator=(const UsageNotes&) = delete;

  std::vector<DDPLoggingData> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<DDPLoggingData> all_;
};

/// A Reducer with a Logger, and steps in which every parameter is marked from the last to the
/// first.
class Logged {
 public:
  Logged(const Group& group, std::vector<std::size_t> sizes, const BucketIndices& buckets,
         const ReducerOptions& options = {})
      : training_(std::move(sizes)),
        rank_(group.rank()),
        host_(training_.size()),
        reducer(group, training_.params, buckets, host_, options),
        logger(std::make_shared<Logger>(reducer)) {
    reducer.setLogger(logger);
  }

  void step(const std::vector<std::size_t>& unused = {}) {
    logger->setRuntimeStatsAndLog();
    reducer.prepareForForward();
    reducer.rebuildBuckets();
    reducer.beginBackward(unused);
    for (std::size_t param = training_.size(); param-- > 0;) {
      if (std::find(unused.begin(), unused.end(), param) == unused.end()) {
        training_.compute(host_, param, rank_, 0);
        reducer.markReady(param);
      }
    }
    reducer.finish();
  }

  std::int64_t number(const std::string& field) const {
    return logger->loggingData().intsMap.at(field);
  }
  std::string text(const std::string& field) const {
    return logger->loggingData().strsMap.at(field);
  }

 private:
  Training<float> training_;
  int rank_;
  GradBuffers host_;

 public:
  Reducer reducer;
  std::shared_ptr<Logger> logger;
};

TEST(StepTimerTest, ADifferenceNeedsBothEventsInTheirOrder) {
  StepTimer timer;
  timer.record(StepEvent::BACKWARD_COMM_START, 30);
  EXPECT_EQ(timer.difference(StepEvent::BACKWARD_COMM_START, StepEvent::BACKWARD_COMM_END),
            std::nullopt);
  EXPECT_EQ(timer.timestamp(StepEvent::BACKWARD_COMM_END), std::nullopt);

  timer.record(StepEvent::BACKWARD_COMM_END, 20);  // of the step before
  EXPECT_EQ(timer.difference(StepEvent::BACKWARD_COMM_START, StepEvent::BACKWARD_COMM_END),
            std::nullopt);

  timer.record(StepEvent::BACKWARD_COMM_END, 75);
  EXPECT_EQ(timer.difference(StepEvent::BACKWARD_COMM_START, StepEvent::BACKWARD_COMM_END), 45);
  EXPECT_EQ(timer.timestamp(StepEvent::BACKWARD_COMM_END), 75);
}

TEST(LoggerTest, KnowsAtOnceWhatWasConstructed) {
  inWorld(2, [](Group world) {
    std::vector<float> floats(10);
    std::vector<double> doubles(5);
    GradBuffers host(3);
    Reducer reducer(world, {{Tensor(floats), "a"}, {Tensor(doubles), "b"}, {Tensor(floats), "c"}},
                    {{1}, {2, 0}}, host, {.bucketBytesCap = 4096, .gradientAsBucketView = true});
    const auto logger = std::make_shared<Logger>(reducer);

    logger->setConstructionDataAndLog({.moduleName = "Net", .broadcastBuffers = true});

    const DDPLoggingData data = logger->loggingData();
    EXPECT_THAT(
        data.strsMap,
        AllOf(Contains(Pair("module_name", "Net")), Contains(Pair("dtypes", "double, float")),
              Contains(Pair("bucket_sizes", "40, 80")), Contains(Pair("device_ids", "")),
              Contains(Pair("backend_name", "unisono")), Contains(Key("master_addr")),
              Contains(Key("master_port")), Contains(Key("torch_distributed_debug")),
              Contains(Key("cuda_visible_devices"))));
    EXPECT_THAT(
        data.intsMap,
        ::testing::UnorderedElementsAre(
            Pair("world_size", 2), Pair("rank", world.rank()), Pair("iteration", 0),
            Pair("is_multi_device_module", 0), Pair("num_parameter_tensors", 3),
            Pair("total_parameter_size_bytes", 120), Pair("output_device", -1),
            Pair("broadcast_buffers", 1), Pair("has_sync_bn", 0), Pair("bucket_cap_bytes", 4096),
            Pair("find_unused_parameters", 0), Pair("gradient_as_bucket_view", 1)));
    EXPECT_THAT(describe(data), AllOf(HasSubstr("module_name=Net "), HasSubstr("world_size=2")));
  });
}

TEST(LoggerTest, ListsHoweverManyBucketsThereAre) {
  inWorld(1, [](Group world) {
    BucketIndices buckets;
    std::string sizes;
    for (std::size_t param = 0; param < 40; ++param) {
      buckets.push_back({param});
      sizes += param == 0 ? "8" : ", 8";
    }
    Logged logged(world, std::vector<std::size_t>(40, 2), buckets);
    logged.logger->setConstructionDataAndLog({});
    EXPECT_EQ(logged.text("bucket_sizes"), sizes);
  });
}

TEST(LoggerTest, AStepIsReportedWhenTheNextOneBegins) {
  inWorld(2, [](Group world) {
    Logged logged(world, {10, 20}, {{1}, {0}});
    logged.step();
    EXPECT_THAT(logged.logger->loggingData().intsMap, Not(Contains(Key("iteration"))));
    logged.step();

    EXPECT_EQ(logged.number("iteration"), 1);
    EXPECT_EQ(logged.number("num_buckets_reduced"), 2);
    EXPECT_EQ(logged.number("unused_parameter_size"), 0);
    EXPECT_EQ(logged.text("prev_iteration_grad_ready_order_indices"), "1, 0");
  });
}

TEST(LoggerTest, AfterTwentyStepsAtRateTwoTheEighteenthIsNotedLast) {
  inWorld(2, [](Group world) {
    Logged logged(world, {10}, {{0}});
    logged.reducer.setRuntimeLoggingSampleRate(2);
    for (int number = 1; number <= 20; ++number) {
      logged.step();
    }
    EXPECT_EQ(logged.number("iteration"), 18);
  });
}

TEST(LoggerTest, AfterTenStepsOneInAHundredIsNoted) {
  inWorld(1, [](Group world) {
    Logged logged(world, {10}, {{0}});
    std::vector<std::int64_t> noted;
    for (int number = 1; number <= 202; ++number) {
      logged.step();
      if (number > 1 && (noted.empty() || noted.back() != logged.number("iteration"))) {
        noted.push_back(logged.number("iteration"));
      }
    }
    EXPECT_THAT(noted, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100, 200));
  });
}

TEST(LoggerTest, TimesAreOfTheLastStepAndTheirRunningMean) {
  inWorld(2, [](Group world) {
    Logged logged(world, {100, 3000}, {{1}, {0}});
    logged.step();
    std::int64_t mean = 0;
    for (std::int64_t steps = 1; steps <= 9; ++steps) {
      logged.step();
      const std::int64_t took = logged.number("backward_compute_time");
      mean = (took + mean * (steps - 1)) / steps;
      EXPECT_EQ(logged.number("avg_backward_compute_time"), mean);
      EXPECT_EQ(took, logged.number("backward_compute_time_end") -
                          logged.number("backward_compute_time_start"));
      EXPECT_EQ(logged.number("forward_compute_time"),
                logged.number("backward_compute_time_start") -
                    logged.number("forward_compute_time_start"));
      EXPECT_EQ(logged.number("backward_comm_time"), logged.number("backward_comm_time_end") -
                                                         logged.number("backward_comm_time_start"));
      EXPECT_EQ(
          logged.number("backward_compute_comm_overlap_time"),
          logged.number("backward_compute_time_end") - logged.number("backward_comm_time_start"));
      EXPECT_GE(logged.number("avg_backward_compute_comm_overlap_time"), 0);
    }
  });
}

TEST(LoggerTest, WhatIsReducedAtTheEndOfAStepOverlapsNothing) {
  inWorld(2, [](Group world) {
    Logged logged(world, {100}, {{0}}, {.staticGraph = true});
    logged.step();
    logged.step();  // reports the first, which is reduced by finish()
    EXPECT_EQ(logged.number("backward_compute_comm_overlap_time"), 0);
    EXPECT_GT(logged.number("backward_comm_time_start"), 0);
  });
}

TEST(LoggerTest, RebuiltBucketsAreNotedOnceThereAreSome) {
  inWorld(2, [](Group world) {
    Logged logged(world, {10, 20, 30}, {{0, 1, 2}},
                  {.bucketBytesCap = 1000, .firstBucketBytesCap = 1});
    logged.step();
    logged.step();
    EXPECT_EQ(logged.number("has_rebuilt_buckets"), 0);
    EXPECT_THAT(logged.logger->loggingData().strsMap, Not(Contains(Key("rebuilt_bucket_sizes"))));
    logged.step();

    EXPECT_EQ(logged.number("has_rebuilt_buckets"), 1);
    EXPECT_EQ(logged.text("rebuilt_bucket_sizes"), "120, 120");
    EXPECT_EQ(logged.text("rebuilt_per_bucket_param_indices"), "2, 1 0");
  });
}

TEST(LoggerTest, AGraphIsStaticUntilOtherParametersAreUnused) {
  inWorld(2, [](Group world) {
    Logged logged(world, {10, 20, 30}, {{0, 1, 2}}, {.findUnusedParameters = true});
    for (int number = 0; number < 3; ++number) {
      logged.step({1});
      EXPECT_TRUE(logged.reducer.isGraphStatic());
    }
    EXPECT_EQ(logged.number("unused_parameter_size"), 80);
    EXPECT_THAT(logged.logger->loggingData().intsMap, Not(Contains(Key("can_set_static_graph"))));

    logged.step({2});
    EXPECT_FALSE(logged.reducer.isGraphStatic());
    EXPECT_EQ(logged.number("can_set_static_graph"), 0);
    EXPECT_EQ(logged.number("iteration"), 4);
    logged.step({2});
    EXPECT_FALSE(logged.reducer.isGraphStatic());
    EXPECT_EQ(logged.number("unused_parameter_size"), 120);
  });
}

TEST(LoggerTest, ErrorsAreNotedAndThrown) {
  inWorld(1, [](Group world) {
    Logged logged(world, {10, 20}, {{0, 1}});
    logged.step();
    logged.reducer.prepareForForward();
    logged.reducer.beginBackward();
    logged.reducer.markReady(1);
    EXPECT_THAT(textOf<UsageError>([&] { logged.reducer.finish(); }), HasSubstr("layer0"));

    EXPECT_EQ(logged.number("has_error"), 1);
    EXPECT_EQ(logged.number("iteration"), 2);
    EXPECT_THAT(logged.text("error"),
                HasSubstr("1 of 2 parameters did not receive grad for rank 0: layer0"));
  });
}

TEST(LoggerTest, NamesTheHookThatIsOurs) {
  inWorld(1, [](Group world) {
    Logged before(world, {10}, {{0}});
    before.reducer.registerBuiltinCommHook(BuiltinCommHookType::FP16_COMPRESS);
    EXPECT_EQ(before.text("comm_hook"), "FP16_COMPRESS");
    before.logger->setCommHook("mine");
    EXPECT_EQ(before.text("comm_hook"), "mine");

    Training<float> training({10});
    GradBuffers host(1);
    Reducer reducer(world, training.params, {{0}}, host);
    reducer.registerBuiltinCommHook(BuiltinCommHookType::ALLREDUCE);
    const auto after = std::make_shared<Logger>(reducer);
    reducer.setLogger(after);
    EXPECT_THAT(after->loggingData().strsMap, ElementsAre(Pair("comm_hook", "ALLREDUCE")));
  });
}

TEST(LoggerTest, CanBeSetOnlyOnce) {
  inWorld(1, [](Group world) {
    Logged logged(world, {10}, {{0}});
    const auto facts = errorOf<UsageError>([&] { logged.reducer.setLogger(logged.logger); });
    ASSERT_TRUE(facts);
    EXPECT_THAT(facts->what, AllOf(HasSubstr("a Logger can be set only once"),
                                   HasSubstr("layer0 (parameter 0)")));
    EXPECT_EQ(facts->rank, 0);
    EXPECT_THAT(facts->hint, Not(IsEmpty()));
    EXPECT_THAT(textOf<UsageError>([&] { logged.reducer.setLogger(nullptr); }),
                HasSubstr("no logger"));
  });
}

TEST(LoggerTest, MayGoBeforeItsReducer) {
  inWorld(2, [](Group world) {
    Logged logged(world, {10, 10}, {{0, 1}}, {.findUnusedParameters = true});
    logged.step({0});
    logged.logger.reset();
    for (const std::size_t unused : {0U, 1U}) {
      logged.reducer.beginBackward(std::vector<std::size_t>{unused});
      logged.reducer.markReady(1 - unused);
      logged.reducer.finish();
    }
    EXPECT_THAT(textOf<UsageError>([&] { logged.reducer.markReady(0); }),
                HasSubstr("outside a step"));
  });
}

TEST(LoggerTest, ReportsConstructionErrorsAndSomeSteps) {
  UsageNotes notes;
  inWorld(1, [&](Group world) {
    Logged logged(world, {10}, {{0}});
    logged.reducer.setRuntimeLoggingSampleRate(1);
    logged.logger->setConstructionDataAndLog({.moduleName = "Net"});
    EXPECT_EQ(notes.all().size(), 1U);
    for (int number = 0; number < 51; ++number) {
      logged.step();
    }
    logged.logger->setErrorAndLog("it broke");
  });

  const std::vector<DDPLoggingData> all = notes.all();
  std::vector<std::int64_t> iterations;
  for (const DDPLoggingData& each : all) {
    iterations.push_back(each.intsMap.at("iteration"));
    EXPECT_EQ(each.strsMap.at("module_name"), "Net");
  }
  EXPECT_THAT(iterations, ElementsAre(0, 10, 20, 50, 51, 51));
  EXPECT_EQ(all[4].strsMap.at("error"), "it broke");
  EXPECT_EQ(all[5].intsMap.at("can_set_static_graph"), 1) << "known when the logger goes";
}

TEST(LoggerTest, AUsageLoggerThatThrowsHarmsNobody) {
  setDDPUsageLogger([](const DDPLoggingData&) { throw std::runtime_error("no space left"); });
  inWorld(1, [](Group world) {
    Logged logged(world, {10}, {{0}});
    logged.logger->setConstructionDataAndLog({});
    logged.step();
  });
  setDDPUsageLogger([](const DDPLoggingData&) { throw 3; });
  inWorld(1, [](Group world) { Logged(world, {10}, {{0}}).step(); });
  setDDPUsageLogger({});
}

TEST(LoggerTest, RefusesARateBelowOne) {
  inWorld(1, [](Group world) {
    Logged logged(world, {10}, {{0}});
    EXPECT_THAT(textOf<UsageError>([&] { logged.reducer.setRuntimeLoggingSampleRate(0); }),
                HasSubstr("equal or greater than 1"));
  });
}

TEST(LoggerTest, DataParallelHasOneThatKnowsItsSteps) {
  inWorld(2, [](Group world) {
    std::vector<float> value(7);
    DataParallel model(world, {{Tensor(value), "w"}}, {.moduleName = "Line"});
    for (const bool sync : {true, false, true, true}) {
      model.begin(sync);
      model.ready(0);
      model.finish();
    }
    const DDPLoggingData data = model.logger().loggingData();
    EXPECT_EQ(data.strsMap.at("module_name"), "Line");
    EXPECT_EQ(data.intsMap.at("iteration"), 2) << "steps that accumulate are not counted";
  });
}

TEST(BackwardStatsTest, TellWhenEachParameterWasReadyLast) {
  inWorld(2, [](Group world) {
    Training<float> training({4, 5});
    GradBuffers host(2);
    Reducer reducer(world, training.params, {{0, 1}}, host, {.findUnusedParameters = true});
    EXPECT_THAT(reducer.backwardStats(), Each(0));
    reducer.beginBackward();
    reducer.markReady(1);
    reducer.markReady(0);
    reducer.finish();
    const std::vector<std::int64_t> stats = reducer.backwardStats();
    EXPECT_THAT(stats, Each(Ge(0)));
    EXPECT_GE(stats[0], stats[1]);

    reducer.beginBackward();
    reducer.resetState();
    EXPECT_EQ(reducer.backwardStats(), stats) << "nothing was marked in that step";
  });
}

}  // namespace
}  // namespace unisono
