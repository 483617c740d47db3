// Parameters whose gradients are sparse, beside others.
#include <gmock/gmock.h>

#include "unisono/ddp/data_parallel.hpp"
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
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kColumns = 2;

/// Rows of a table with two columns.
template <typename T>
struct Rows {
  std::vector<std::int64_t> indices;
  std::vector<T> values;

  SparseTensor tensor(std::int64_t rows) {
    const auto entries = static_cast<std::int64_t>(indices.size());
    return {Tensor(indices.data(), DType::INT64, {1, entries}),
            Tensor(values.data(), kDType<T>, {entries, kColumns}),
            {rows, kColumns}};
  }
};

template <typename T>
std::vector<T> listOf(const Tensor& tensor) {
  const T* data = tensor.dataAs<T>();
  return {data, data + tensor.numel()};
}

/// A table with sparse gradients between two dense parameters, all of one type.
template <typename T>
class Model {
 public:
  static constexpr std::size_t kTable = 1;
  static constexpr std::int64_t kRows = 9;

  explicit Model(bool views = false, bool isStatic = false)
      : options{.firstBucketBytesCap = 1,
                .gradientAsBucketView = views,
                .staticGraph = isStatic,
                .expectSparseGradients = {false, true, false}} {
    training.params[kTable] = {Tensor(table_.data(), kDType<T>, {kRows, kColumns}), "table"};
  }

  /// Everybody has row 8, twice; rank r also has row r.
  void compute(int rank, int step) {
    const auto value = static_cast<float>((rank + 1) * (step + 1));
    rows_ = {.indices = {8, rank, 8}, .values = {}};
    for (const float each : {value, 2 * value, 4 * value, -value, 3 * value, 0.0F}) {
      rows_.values.push_back(static_cast<T>(each));
    }
    host.setSparse(kTable, rows_.tensor(kRows));
  }

  void step(Reducer& reducer, int rank, int number) {
    reducer.beginBackward();
    for (const std::size_t param : {2U, 0U}) {
      training.compute(host, param, rank, number);
      reducer.markReady(param);
    }
    compute(rank, number);
    reducer.markReady(kTable);
    reducer.finish();
  }

  void expectAverages(int ranks, int number) {
    EXPECT_EQ(training.firstWrong(host, 0, ranks, number, ranks), -1);
    EXPECT_EQ(training.firstWrong(host, 2, ranks, number, ranks), -1);
    const SparseTensor grad = host.sparseGrad(kTable);
    std::vector<std::int64_t> places;
    std::vector<T> values;
    float sum = 0;
    const auto add = [&](std::int64_t place, float first, float second) {
      places.push_back(place);
      values.push_back(static_cast<T>(first / static_cast<float>(ranks)));
      values.push_back(static_cast<T>(second / static_cast<float>(ranks)));
    };
    for (int rank = 0; rank < ranks; ++rank) {
      const auto value = static_cast<float>((rank + 1) * (number + 1));
      add(rank, 4 * value, -value);
      sum += value;
    }
    add(8, 4 * sum, 2 * sum);
    EXPECT_EQ(listOf<std::int64_t>(grad.indices), places);
    EXPECT_EQ(listOf<T>(grad.values), values);
    EXPECT_EQ(grad.sizes, (Dims{kRows, kColumns}));
  }

  Training<T> training{{5, 0, 7}};
  GradBuffers host{3};
  ReducerOptions options;

 private:
  std::vector<T> table_ = std::vector<T>(kRows * kColumns);
  Rows<T> rows_;
};

template <typename T>
class SparseGradientsTypesTest : public ::testing::Test {};
using SparseTypes = ::testing::Types<float, double, Half>;
TYPED_TEST_SUITE(SparseGradientsTypesTest, SparseTypes);

TYPED_TEST(SparseGradientsTypesTest, EveryRankGetsTheAverageOfEveryPlaceThatAnybodyHas) {
  for (const bool views : {false, true}) {
    inWorld(4, [&](Group world) {
      Model<TypeParam> model(views);
      Reducer reducer(world, model.training.params, {{2, 0}, {1}}, model.host, model.options);
      for (int number = 0; number < 3; ++number) {
        reducer.rebuildBuckets();
        model.step(reducer, world.rank(), number);
        model.expectAverages(world.size(), number);
      }
      EXPECT_EQ(reducer.buckets(), (BucketIndices{{2}, {1}, {0}})) << "again one of its own";
    });
  }
}

TEST(SparseGradientsTest, AStaticGraphMayHaveThem) {
  inWorld(2, [](Group world) {
    Model<float> model(false, true);
    Reducer reducer(world, model.training.params, {{2, 0}, {1}}, model.host, model.options);
    for (int number = 0; number < 4; ++number) {
      reducer.rebuildBuckets();
      model.step(reducer, world.rank(), number);
      model.expectAverages(2, number);
    }
  });
}

TEST(SparseGradientsTest, LargeHalvesDoNotOverflowOnTheWay) {
  inWorld(2, [](Group world) {
    std::vector<Half> table(6);
    Rows<Half> mine{.indices = {2}, .values = {Half(32768.0F), Half(-32768.0F)}};
    GradBuffers host(1);
    host.setSparse(0, mine.tensor(3));
    Reducer reducer(world, {{Tensor(table.data(), DType::FLOAT16, {3, kColumns}), "table"}}, {{0}},
                    host, {.expectSparseGradients = {true}});

    reducer.beginBackward();
    reducer.markReady(0);
    reducer.finish();

    EXPECT_THAT(listOf<Half>(host.sparseGrad(0).values),
                ElementsAre(Half(32768.0F), Half(-32768.0F)));
    EXPECT_EQ(static_cast<float>(mine.values[0]), 32768.0F) << "what was given is left alone";
  });
}

TEST(SparseGradientsTest, ARankWithoutEntriesAddsNothing) {
  inWorld(2, [](Group world) {
    std::vector<float> table(6);
    Rows<float> mine;
    if (world.rank() == 1) {
      mine = {.indices = {1}, .values = {3, 5}};
    }
    GradBuffers host(1);
    host.setSparse(0, mine.tensor(3));
    Reducer reducer(world, {{Tensor(table.data(), DType::FLOAT32, {3, kColumns}), "table"}}, {{0}},
                    host, {.expectSparseGradients = {true}});
    reducer.registerBuiltinCommHook(BuiltinCommHookType::ALLREDUCE);  // what happens anyway

    reducer.beginBackward();
    EXPECT_EQ(reducer.markReady(0), Ready::ALL_LAUNCHED);
    reducer.finish();

    EXPECT_THAT(listOf<std::int64_t>(host.sparseGrad(0).indices), ElementsAre(1));
    EXPECT_THAT(listOf<float>(host.sparseGrad(0).values), ElementsAre(1.5F, 2.5F));
  });
}

TEST(SparseGradientsErrorTest, AGradientMustBeThereAndLookLikeItsParameter) {
  inWorld(1, [](Group world) {
    Model<float> model;
    Reducer reducer(world, model.training.params, {{2, 0}, {1}}, model.host, model.options);
    reducer.beginBackward();
    const auto facts = errorOf<UsageError>([&] { reducer.markReady(1); });
    ASSERT_TRUE(facts);
    EXPECT_THAT(facts->what, AllOf(HasSubstr("table (parameter 1)"),
                                   HasSubstr("Expected sparse gradient to be defined.")));
    EXPECT_EQ(facts->rank, 0);
    EXPECT_THAT(facts->hint, HasSubstr("without entries"));

    Rows<float> other{.indices = {1}, .values = {1, 2}};
    model.host.setSparse(1, other.tensor(10));
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(1); }),
                AllOf(HasSubstr("table (parameter 1)"), HasSubstr("Expected float32[9, 2]"),
                      HasSubstr("got float32[10, 2]")));
    Rows<double> doubles{.indices = {1}, .values = {1, 2}};
    model.host.setSparse(1, doubles.tensor(9));
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(1); }), HasSubstr("got float64[9, 2]"));

    std::vector<std::int64_t> flat = {1};
    model.host.setSparse(1, {Tensor(flat), other.tensor(9).values, {9, kColumns}});
    EXPECT_THAT(textOf<UsageError>([&] { reducer.markReady(1); }),
                HasSubstr("its indices are int64[1]"));

    for (const std::size_t param : {2U, 0U}) {
      reducer.markReady(param);
    }
    model.compute(0, 0);
    EXPECT_EQ(reducer.markReady(1), Ready::ALL_LAUNCHED) << "nothing has happened before";
    reducer.finish();
  });
}

TEST(SparseGradientsErrorTest, OneThatIsUnusedIsToldAndNotTakenForAnOldOne) {
  inWorld(1, [](Group world) {
    Model<float> model;
    model.options.findUnusedParameters = true;
    model.options.markMissingAsUnused = true;
    Reducer reducer(world, model.training.params, {{2, 0}, {1}}, model.host, model.options);
    const std::vector<std::size_t> unused = {1};
    EXPECT_THAT(textOf<UsageError>([&] { reducer.beginBackward(unused); }),
                AllOf(HasSubstr("table (parameter 1) cannot be unused"),
                      HasSubstr("Expected sparse gradient to be defined.")));

    model.step(reducer, 0, 0);
    reducer.beginBackward();
    reducer.markReady(0);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.finish(); }),
                HasSubstr("1 of 3 parameters did not receive grad for rank 0: table"));
  });
}

TEST(SparseGradientsErrorTest, ARankThatHasNoneEndsTheStepOfAll) {
  std::vector<std::string> told(2);
  const auto train = [&](Group world) {
    Model<float> model;
    Reducer reducer(world, model.training.params, {{1}, {2, 0}}, model.host, model.options);
    try {
      reducer.beginBackward();
      if (world.rank() == 0) {
        model.compute(0, 0);
        reducer.markReady(1);
      }
      for (const std::size_t param : {2U, 0U}) {
        reducer.markReady(param);
      }
      reducer.finish();
    } catch (const DistError& error) {
      told[static_cast<std::size_t>(world.rank())] = error.what();
    }
  };
  inWorld(2, train);
  for (const std::string& each : told) {
    EXPECT_THAT(each, AllOf(HasSubstr("did not receive grad for rank 1: table"),
                            HasSubstr("culprits=[1]")));
  }
}

TEST(SparseGradientsErrorTest, ASparseParameterSharesNoBucket) {
  inWorld(1, [](Group world) {
    Model<float> model;
    EXPECT_THAT(textOf<UsageError>([&] {
                  Reducer(world, model.training.params, {{2, 1, 0}}, model.host, model.options);
                }),
                AllOf(HasSubstr("bucket 0 has table (parameter 1) among others"),
                      HasSubstr("needs a bucket of its own")));
    EXPECT_THAT(textOf<UsageError>([&] {
                  Reducer(world, model.training.params, {{2, 0}, {1}}, model.host,
                          {.expectSparseGradients = {true}});
                }),
                HasSubstr("there are 3 parameters, but it is said of 1"));
  });
}

TEST(SparseGradientsErrorTest, HooksThatKnowNothingOfThemAreRefused) {
  class Hook final : public CommHook {
   public:
    Future run(GradBucket& bucket) override { return Future::ready({bucket.buffer()}); }
  };
  inWorld(1, [](Group world) {
    Model<float> model;
    Reducer reducer(world, model.training.params, {{2, 0}, {1}}, model.host, model.options);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.registerCommHook(std::make_shared<Hook>()); }),
                HasSubstr("hook cannot reduce table (parameter 1)"));
    EXPECT_THAT(textOf<UsageError>(
                    [&] { reducer.registerBuiltinCommHook(BuiltinCommHookType::FP16_COMPRESS); }),
                HasSubstr("FP16_COMPRESS cannot make float16 of table (parameter 1)"));
    reducer.registerBuiltinCommHook(BuiltinCommHookType::ALLREDUCE);
    model.step(reducer, 0, 0);
    model.expectAverages(1, 0);
  });
}

TEST(SparseGradientsErrorTest, AHostMustKnowOfThem) {
  class DenseHost final : public GradHost {
   public:
    Tensor grad(std::size_t /*index*/) override { return {}; }
    void adopt(std::size_t /*index*/, Tensor /*view*/) override {}
    void store(std::size_t /*index*/, const Tensor& /*source*/) override {}
  };
  inWorld(1, [](Group world) {
    Model<float> model;
    DenseHost host;
    Reducer reducer(world, model.training.params, {{2, 0}, {1}}, host, model.options);
    reducer.beginBackward();
    EXPECT_THAT(textOf<NotSupportedError>([&] { reducer.markReady(1); }),
                AllOf(HasSubstr("this host has no sparse gradients"), HasSubstr("parameter 1")));
    EXPECT_THROW(host.storeSparse(1, {}), NotSupportedError);
  });
}

TEST(SparseGradientsTest, ADataParallelHasThem) {
  for (const bool views : {false, true}) {
    inWorld(2, [&](Group world) {
      std::vector<float> table(18);
      std::vector<float> bias(2);
      DataParallel model(
          world, {{Tensor(table.data(), DType::FLOAT32, {9, 2}), "table"}, {Tensor(bias), "bias"}},
          {.gradientAsBucketView = views, .expectSparseGradients = {true, false}});
      EXPECT_EQ(model.sparseGrad(0).values.numel(), 0);
      for (int step = 0; step < 3; ++step) {
        Rows<float> rows{.indices = {8, world.rank()}, .values = {1, 2, 4, 4}};
        model.begin();
        model.setSparseGrad(0, rows.tensor(9));
        model.ready(0);
        model.ready(1);
        model.finish();
        EXPECT_THAT(listOf<std::int64_t>(model.sparseGrad(0).indices), ElementsAre(0, 1, 8));
        EXPECT_THAT(listOf<float>(model.sparseGrad(0).values), ElementsAre(2, 2, 2, 2, 1, 2));
      }
      model.zeroGrad();
      EXPECT_EQ(model.sparseGrad(0).values.numel(), 0);
      EXPECT_THAT(textOf<UsageError>([&] { model.grad(0); }), HasSubstr("table"));
      EXPECT_THAT(textOf<UsageError>([&] { model.sparseGrad(1); }), HasSubstr("bias"));
      EXPECT_THAT(textOf<UsageError>([&] { model.setSparseGrad(2, {}); }), HasSubstr("among 2"));
    });
  }
}

TEST(SparseGradientsErrorTest, ADataParallelIsToldOfAllParametersOrOfNone) {
  inWorld(1, [](Group world) {
    std::vector<float> table(2);
    EXPECT_THAT(
        textOf<UsageError>([&] {
          DataParallel(world, {{Tensor(table), "table"}}, {.expectSparseGradients = {true, true}});
        }),
        HasSubstr("it is said of 2"));
  });
}

TEST(SparseGradientsErrorTest, ThereAreNoRowsOfZerosForThem) {
  inWorld(1, [](Group world) {
    Model<float> model;
    Reducer reducer(world, model.training.params, {{2}, {1}, {0}}, model.host, model.options);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.zeroBuckets(); }),
                AllOf(HasSubstr("bucket 1 is no row"), HasSubstr("table")));
    reducer.checkFinalized();
    reducer.beginBackward();
    reducer.checkFinalized();  // nothing has come yet
    reducer.markReady(2);
    EXPECT_THAT(textOf<UsageError>([&] { reducer.checkFinalized(); }), HasSubstr("table"));
  });
}

}  // namespace
}  // namespace unisono
