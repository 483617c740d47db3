#include "unisono/ddp/power_sgd.hpp"

#include <cmath>
#include <complex>
#include <gmock/gmock.h>

#include "unisono/ddp/hooks.hpp"

#include "ddp/hooked.hpp"
#include "ddp/low_rank.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using hooks::PowerSGD;
using hooks::PowerSGDOptions;
using test::averageOf;
using test::farthest;
using test::HookedTraining;
using test::inWorld;
using test::isTheSameEverywhere;
using test::textOf;
using test::Trained;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<double>>;

template <typename T>
typename HookedTraining<T>::Hook powerSGD(const PowerSGDOptions& options) {
  return [options](const Group& world) { return std::make_shared<PowerSGD>(world, options); };
}

Rows rowsOf(const std::vector<double>& values, std::size_t columns) {
  Rows rows;
  for (std::size_t at = 0; at < values.size(); at += columns) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
    rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(columns));
  }
  return rows;
}

Rows product(const Rows& a, const Rows& b) {
  Rows all(a.size(), std::vector<double>(b[0].size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b[0].size(); ++j) {
      for (std::size_t k = 0; k < b.size(); ++k) {
        all[i][j] += a[i][k] * b[k][j];
      }
    }
  }
  return all;
}

Rows transposed(const Rows& a) {
  Rows all(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) {
      all[j][i] = a[i][j];
    }
  }
  return all;
}

Rows orthogonal(const Rows& a) {
  Rows columns = transposed(a);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double common = product({columns[i]}, transposed({columns[j]}))[0][0];
      for (std::size_t at = 0; at < columns[i].size(); ++at) {
        columns[i][at] -= common * columns[j][at];
      }
    }
    const double length = std::sqrt(product({columns[i]}, transposed({columns[i]}))[0][0]);
    for (double& value : columns[i]) {
      value /= length;
    }
  }
  return transposed(columns);
}

/// What becomes of one matrix, by the book: what each rank has left out, and the right factor.
struct Book {
  PowerSGDOptions options;
  std::size_t columns;
  ddp::NormalNumbers numbers{options.seed};
  std::vector<std::vector<double>> errors = {};  // by rank
  Rows right = {};

  std::vector<double> step(std::vector<std::vector<double>> gradients) {
    const std::size_t ranks = gradients.size();
    errors.resize(ranks, std::vector<double>(gradients[0].size()));
    std::vector<double> average(gradients[0].size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < average.size(); ++i) {
        gradients[rank][i] += options.errorFeedback ? errors[rank][i] : 0;
        average[i] += gradients[rank][i] / static_cast<double>(ranks);
      }
    }
    if (right.empty() || !options.warmStart) {
      right.assign(columns, std::vector<double>(static_cast<std::size_t>(options.rank)));
      for (auto& row : right) {
        for (double& value : row) {
          value = numbers.next();
        }
      }
    }
    const Rows matrix = rowsOf(average, columns);  // a sum of products is the product of the sum
    const Rows left = orthogonal(product(matrix, orthogonal(right)));
    right = product(transposed(matrix), left);
    std::vector<double> result;
    for (const auto& row : product(left, transposed(right))) {
      result.insert(result.end(), row.begin(), row.end());
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < result.size(); ++i) {
        errors[rank][i] = gradients[rank][i] - result[i];
      }
    }
    return result;
  }
};

template <typename T>
void expectAsInTheBook(const PowerSGDOptions& options, int ranks, double tolerance) {
  const HookedTraining<T> training{
      .shapes = {{20, 3, 5}}, .hook = powerSGD<T>(options), .ranks = ranks, .steps = 6};
  const Trained<T> trained = training.run();
  EXPECT_TRUE(isTheSameEverywhere(trained));
  EXPECT_EQ(trained, training.run());  // run to run
  Book book{.options = options, .columns = 15};
  for (int step = static_cast<int>(options.startIter); step < 6; ++step) {
    std::vector<std::vector<double>> gradients;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<T> mine = training.given(rank, step, 0);
      gradients.emplace_back(mine.begin(), mine.end());
    }
    EXPECT_LT(farthest(trained[0][static_cast<std::size_t>(step)][0], book.step(gradients)),
              tolerance)
        << step;
  }
}

TEST(PowerSGDTest, MatricesBecomeWhatTheBookSays) {
  for (const int rank : {1, 2, 4}) {
    expectAsInTheBook<double>({.rank = rank, .startIter = 2, .minCompressionRate = 1}, 3, 1e-9);
    expectAsInTheBook<float>({.rank = rank, .startIter = 2, .minCompressionRate = 1}, 2, 1e-3);
  }
  expectAsInTheBook<double>({.rank = 2, .startIter = 2, .errorFeedback = false, .seed = 7}, 1,
                            1e-9);
  expectAsInTheBook<double>({.rank = 2, .startIter = 2, .warmStart = false}, 3, 1e-9);
  expectAsInTheBook<double>({.rank = 2, .startIter = 0, .errorFeedback = false, .warmStart = false},
                            2, 1e-9);
}

TEST(PowerSGDTest, StepsBeforeTheStartAreAveragedAsTheyAre) {
  const HookedTraining<float> training{
      .shapes = {{40, 30}, {7}}, .hook = powerSGD<float>({.startIter = 3}), .steps = 3};
  const Trained<float> trained = training.run();
  for (int step = 0; step < 3; ++step) {
    for (const std::size_t param : {0U, 1U}) {
      EXPECT_LT(farthest(trained[1][static_cast<std::size_t>(step)][param],
                         averageOf(training, step, param)),
                1e-6);
    }
  }
}

TEST(PowerSGDTest, VectorsAndSmallMatricesStayExactWhateverTheyShareABucketWith) {
  for (const std::size_t bucketBytes : {std::size_t{1}, std::size_t{1} << 20}) {
    const HookedTraining<float> training{
        .shapes = {{31}, {40, 30}, {2, 2}, {40, 20, 1}, {0, 5}, {1}},
        .hook = powerSGD<float>({.startIter = 2}),
        .steps = 4,
        .bucketBytes = bucketBytes};
    const Trained<float> trained = training.run();
    EXPECT_TRUE(isTheSameEverywhere(trained));
    for (const std::size_t param : {0U, 2U, 4U, 5U}) {
      EXPECT_LT(farthest(trained[0][3][param], averageOf(training, 3, param)), 1e-6) << param;
    }
    for (const std::size_t param : {1U, 3U}) {
      EXPECT_GT(farthest(trained[0][3][param], averageOf(training, 3, param)), 1e-2) << param;
    }
  }
}

/// Of rank `rank` in a world: what a matrix of rank one is made of.
std::vector<float> outer(int rank, std::int64_t rows, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      values.push_back(static_cast<float>(rank + 1) * std::sin(static_cast<float>(i + 1)) *
                       std::cos(static_cast<float>(j)));
    }
  }
  return values;
}

TEST(PowerSGDTest, AMatrixOfLowRankIsSentExactlyAlsoWhereTheFactorsHaveMoreColumns) {
  for (const int rank : {1, 2, 5}) {
    const HookedTraining<float> training{
        .shapes = {{40, 30}},
        .hook = powerSGD<float>({.rank = rank, .startIter = 2}),
        .steps = 5,
        .gradient = [](int world, int, std::size_t) { return outer(world, 40, 30); }};
    const Trained<float> trained = training.run();
    for (const std::size_t step : {2U, 3U, 4U}) {
      EXPECT_LT(farthest(trained[0][step][0], averageOf(training, 0, 0)), 1e-5) << rank;
    }
  }
}

TEST(PowerSGDTest, AGradientOfZerosIsThatAndLaterOnesAreNot) {
  const HookedTraining<float> training{.shapes = {{40, 30}},
                                       .hook = powerSGD<float>({.startIter = 2}),
                                       .steps = 5,
                                       .gradient = [](int rank, int step, std::size_t) {
                                         return step < 4 ? std::vector<float>(1200)
                                                         : outer(rank, 40, 30);
                                       }};
  const Trained<float> trained = training.run();
  EXPECT_TRUE(isTheSameEverywhere(trained));
  EXPECT_EQ(trained[0][3][0], std::vector<float>(1200));
  EXPECT_LT(farthest(trained[0][4][0], averageOf(training, 4, 0)), 1e-5);
}

TEST(PowerSGDTest, ANaNIsSeenOnAllRanksAndInThatStepOnly) {
  for (const float wrong : {NAN, INFINITY}) {
    const HookedTraining<float> training{
        .shapes = {{40, 30}, {5}},
        .hook = powerSGD<float>({.startIter = 2}),
        .ranks = 2,
        .steps = 5,
        .bucketBytes = 1 << 20,
        .gradient = [wrong](int rank, int step, std::size_t param) {
          std::vector<float> values =
              param == 0 ? outer(rank, 40, 30) : std::vector<float>(5, 1.0F);
          values[2] = rank == 1 && step == 3 ? wrong : values[2];
          return values;
        }};
    const Trained<float> trained = training.run();
    for (const auto& steps : trained) {
      EXPECT_FALSE(std::isfinite(steps[3][0][2]));
      EXPECT_FALSE(std::isfinite(steps[3][1][2]));
      EXPECT_LT(farthest(steps[4][1], std::vector<double>(5, 1.0)), 1e-6);
      for (const float value : steps[4][0]) {
        ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST(PowerSGDTest, WhatIsLeftOutComesWithLaterSteps) {
  constexpr int kSteps = 40;
  const auto missing = [](const PowerSGDOptions& options) {
    const HookedTraining<float> training{.shapes = {{20, 12}},
                                         .hook = powerSGD<float>(options),
                                         .steps = kSteps,
                                         .gradient = [](int rank, int, std::size_t) {
                                           return test::someNumbers<float>(240, rank, 0, 0);
                                         }};
    const Trained<float> trained = training.run();
    std::vector<double> total(240);
    std::vector<double> right = averageOf(training, 0, 0);
    for (std::size_t i = 0; i < total.size(); ++i) {
      for (const auto& step : trained[0]) {
        total[i] += static_cast<double>(step[0][i]) / kSteps;
      }
    }
    return farthest(total, right);
  };
  EXPECT_LT(missing({.rank = 3, .startIter = 2}),
            0.3 * missing({.rank = 3, .startIter = 2, .errorFeedback = false, .warmStart = false}));
}

/// Trains a parameter that lies in memory in another order, and one of 16 bits.
TEST(PowerSGDTest, OtherLayoutsAndTypesAreReducedInTheirPlaces) {
  inWorld(2, [](Group world) {
    constexpr std::int64_t kCount = 24 * 4 * 6;
    std::vector<float> value(kCount);
    std::vector<float> gradient(kCount);
    const Dims sizes{24, 4, 6};
    const Dims strides{1, 24, 96};  // as Fortran has it
    GradBuffers host(1);
    host.set(0, Tensor(gradient.data(), DType::FLOAT32, sizes, strides));
    Reducer reducer(world, {{Tensor(value.data(), DType::FLOAT32, sizes, strides), "w"}}, {{0}},
                    host);
    reducer.registerCommHook(std::make_shared<PowerSGD>(
        world, PowerSGDOptions{.startIter = 0, .errorFeedback = false, .warmStart = false}));
    const auto at = [&](std::int64_t row, std::int64_t column) -> float& {
      return gradient[static_cast<std::size_t>(row + 24 * (column / 6) + 96 * (column % 6))];
    };
    const std::vector<float> mine = outer(world.rank(), 24, 24);
    for (std::int64_t i = 0; i < kCount; ++i) {
      at(i / 24, i % 24) = mine[static_cast<std::size_t>(i)];
    }
    reducer.beginBackward();
    reducer.markReady(0);
    reducer.finish();
    for (std::int64_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(at(i / 24, i % 24), 1.5F * outer(0, 24, 24)[static_cast<std::size_t>(i)], 1e-5F);
    }
  });
}

TEST(PowerSGDTest, WorksOnShortNumbersInsideAWrapper) {
  const HookedTraining<float> training{
      .shapes = {{40, 30}},
      .hook =
          [](const Group& world) {
            return hooks::bf16Wrapper(
                std::make_shared<PowerSGD>(world, PowerSGDOptions{.startIter = 2}));
          },
      .steps = 4,
      .gradient = [](int rank, int, std::size_t) { return outer(rank, 40, 30); }};
  const Trained<float> trained = training.run();
  EXPECT_TRUE(isTheSameEverywhere(trained));
  EXPECT_LT(farthest(trained[0][3][0], averageOf(training, 0, 0)), 5e-2);
}

TEST(PowerSGDTest, SaysHowMuchSmallerGradientsBecame) {
  inWorld(2, [](Group world) {
    const auto hook = std::make_shared<PowerSGD>(world, PowerSGDOptions{.startIter = 2});
    std::vector<float> matrix(1200);
    std::vector<float> vector(700);
    DataParallel model(world, {{Tensor(matrix.data(), DType::FLOAT32, {40, 30}), "matrix"},
                               {Tensor(vector), "vector"}});
    model.reducer().registerCommHook(hook);
    for (int step = 0; step < 4; ++step) {
      EXPECT_EQ(hook->iter(), step);
      model.begin();
      model.ready(1);
      model.ready(0);
      model.finish();
    }
    EXPECT_EQ(hook->compression().before, 2 * 1900);
    EXPECT_EQ(hook->compression().after, 2 * 770);  // 40 + 30, and 700
    EXPECT_DOUBLE_EQ(hook->compression().rate, 1900.0 / 770);
    hook->setIter(7);
    EXPECT_EQ(hook->iter(), 7);
    hook->useGroup(world);  // begins anew
    EXPECT_EQ(hook->iter(), 0);
    EXPECT_EQ(hook->compression().before, 0);
  });
}

TEST(PowerSGDTest, MistakesAreToldInASentence) {
  inWorld(1, [](Group world) {
    const auto told = [&](const PowerSGDOptions& options) {
      return textOf<UsageError>([&] { PowerSGD(world, options); });
    };
    EXPECT_THAT(told({.rank = 0}), HasSubstr("rank is 0"));
    EXPECT_THAT(told({.epsilon = -1}), HasSubstr("epsilon is -1"));
    EXPECT_THAT(told({.startIter = 1}), HasSubstr("rebuilt after the first step"));
    EXPECT_THAT(told({.startIter = 1, .errorFeedback = false}), HasSubstr("DO: begin with step 2"));

    std::vector<std::complex<double>> phase(3);
    DataParallel model(world, {{Tensor(phase), "phase"}});
    model.reducer().registerCommHook(std::make_shared<PowerSGD>(world));
    model.begin();
    EXPECT_THAT(textOf<UsageError>([&] { model.ready(0); }),
                HasSubstr("PowerSGD is for real numbers"));
  });
}

}  // namespace
}  // namespace unisono
