#include "ddp/low_rank.hpp"

#include <array>
#include <cmath>
#include <gmock/gmock.h>
#include <limits>
#include <vector>

namespace unisono::ddp {
namespace {

TEST(NormalNumbersTest, AreThoseOfNumPy) {
  NormalNumbers zero(0);  // numpy.random.RandomState(0).standard_normal(5)
  for (const double expected : {1.764052345967664, 0.4001572083672233, 0.9787379841057392,
                                2.240893199201458, 1.8675579901499675}) {
    EXPECT_DOUBLE_EQ(zero.next(), expected);
  }
  NormalNumbers other(42);  // numpy.random.RandomState(42).standard_normal(2)
  EXPECT_DOUBLE_EQ(other.next(), 0.4967141530112327);
  EXPECT_DOUBLE_EQ(other.next(), -0.13826430117118466);
}

template <typename T>
class LowRankTest : public ::testing::Test {
 protected:
  static std::vector<T> drawn(std::int64_t count, std::uint32_t seed = 1) {
    NormalNumbers numbers(seed);
    std::vector<T> all;
    for (std::int64_t i = 0; i < count; ++i) {
      all.push_back(static_cast<T>(numbers.next()));
    }
    return all;
  }
  static double dotOf(const Columns<T>& columns, std::int64_t i, std::int64_t j) {
    double sum = 0;
    for (std::int64_t at = 0; at < columns.length; ++at) {
      sum +=
          static_cast<double>(columns.column(i)[at]) * static_cast<double>(columns.column(j)[at]);
    }
    return sum;
  }
  static constexpr double kTolerance = 100 * static_cast<double>(std::numeric_limits<T>::epsilon());
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LowRankTest, Types);

TYPED_TEST(LowRankTest, ColumnsBecomeOrthogonalAndOfLengthOne) {
  for (const std::int64_t length : {4, 7, 8, 9, 100}) {
    std::vector<TypeParam> values = this->drawn(length * 4);
    const Columns<TypeParam> columns{values.data(), length, 4};
    makeOrthogonal(columns, 0);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) {
        EXPECT_NEAR(this->dotOf(columns, i, j), i == j ? 1 : 0, this->kTolerance) << length;
      }
    }
  }
}

TYPED_TEST(LowRankTest, NearlyParallelColumnsBecomeOrthogonalTwo) {
  constexpr std::int64_t kLength = 50;
  std::vector<TypeParam> values = this->drawn(2 * kLength);
  TypeParam* const first = values.data();
  TypeParam* const second = first + kLength;
  for (std::int64_t at = 0; at < kLength; ++at) {  // the second is the first and very little more
    second[at] = first[at] + TypeParam(1e-5) * second[at];
  }
  const Columns<TypeParam> columns{values.data(), kLength, 2};
  makeOrthogonal(columns, 0);
  EXPECT_NEAR(this->dotOf(columns, 0, 1), 0, this->kTolerance);
  EXPECT_NEAR(this->dotOf(columns, 1, 1), 1, this->kTolerance);
}

TYPED_TEST(LowRankTest, ACombinationOfOthersBecomesZero) {
  constexpr std::int64_t kLength = 50;
  std::vector<TypeParam> values = this->drawn(4 * kLength);
  TypeParam* const first = values.data();
  for (std::int64_t at = 0; at < kLength; ++at) {
    first[2 * kLength + at] = 3 * first[at] - TypeParam(0.7) * first[kLength + at];
    first[3 * kLength + at] = 0;
  }
  const Columns<TypeParam> columns{values.data(), kLength, 4};
  makeOrthogonal(columns, 0);
  EXPECT_NEAR(this->dotOf(columns, 1, 1), 1, this->kTolerance);
  EXPECT_EQ(this->dotOf(columns, 2, 2), 0);
  EXPECT_EQ(this->dotOf(columns, 3, 3), 0);
}

TYPED_TEST(LowRankTest, ANaNStaysToBeSeen) {
  std::vector<TypeParam> values = {1, NAN, 2};
  makeOrthogonal(Columns<TypeParam>{values.data(), 3, 1}, 0);
  EXPECT_TRUE(std::isnan(values[0]));
  std::vector<TypeParam> infinite = {1, INFINITY, 2};
  makeOrthogonal(Columns<TypeParam>{infinite.data(), 3, 1}, 0);
  EXPECT_TRUE(std::isnan(infinite[1]));
}

TYPED_TEST(LowRankTest, EpsilonIsAddedToLengths) {
  std::vector<TypeParam> values = {3, 4};
  makeOrthogonal(Columns<TypeParam>{values.data(), 2, 1}, 5);
  EXPECT_NEAR(static_cast<double>(values[1]), 0.4, this->kTolerance);
}

TYPED_TEST(LowRankTest, OnlyUselessColumnsAreDrawnAnew) {
  std::vector<TypeParam> values = {0, 0, 0, 1, 2, 3, INFINITY, 0, 0};
  NormalNumbers numbers(0);
  redrawUseless(Columns<TypeParam>{values.data(), 3, 3}, numbers);
  NormalNumbers same(0);
  for (std::size_t at = 0; at < 3; ++at) {  // as NumPy fills a matrix: row after row
    EXPECT_EQ(values[at], static_cast<TypeParam>(same.next()));
    EXPECT_EQ(values[6 + at], static_cast<TypeParam>(same.next()));
    EXPECT_EQ(values[3 + at], static_cast<TypeParam>(at + 1));
  }
}

TYPED_TEST(LowRankTest, ProductsAreThoseOfTheBook) {
  for (const auto [rows, columns, rank] :
       {std::array{1, 1, 1}, std::array{3, 5, 2}, std::array{17, 8, 3}, std::array{4, 100, 1}}) {
    std::vector<TypeParam> values = this->drawn(rows * columns);
    std::vector<TypeParam> left = this->drawn(rows * rank, 2);
    std::vector<TypeParam> right = this->drawn(columns * rank, 3);
    const Matrix<TypeParam> matrix{values.data(), rows, columns};
    const Columns<TypeParam> p{left.data(), rows, rank};
    const Columns<TypeParam> q{right.data(), columns, rank};
    multiply(p, matrix, q);
    for (int k = 0; k < rank; ++k) {
      for (int i = 0; i < rows; ++i) {
        double sum = 0;
        for (int j = 0; j < columns; ++j) {
          sum += static_cast<double>(matrix.row(i)[j]) * static_cast<double>(q.column(k)[j]);
        }
        EXPECT_NEAR(static_cast<double>(p.column(k)[i]), sum, this->kTolerance);
      }
    }
    multiplyTransposed(q, matrix, p);
    for (int k = 0; k < rank; ++k) {
      for (int j = 0; j < columns; ++j) {
        double sum = 0;
        for (int i = 0; i < rows; ++i) {
          sum += static_cast<double>(matrix.row(i)[j]) * static_cast<double>(p.column(k)[i]);
        }
        EXPECT_NEAR(static_cast<double>(q.column(k)[j]), sum, 100 * this->kTolerance);
      }
    }
    expand(matrix, p, q);
    double sum = 0;
    for (int k = 0; k < rank; ++k) {
      sum += static_cast<double>(p.column(k)[rows - 1]) * static_cast<double>(q.column(k)[0]);
    }
    EXPECT_NEAR(static_cast<double>(matrix.row(rows - 1)[0]), sum, 100 * this->kTolerance);
  }
}

}  // namespace
}  // namespace unisono::ddp
