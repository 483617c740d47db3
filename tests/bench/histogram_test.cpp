#include "bench/histogram.hpp"

#include <gmock/gmock.h>

namespace unisono::bench {
namespace {

TEST(HistogramTest, FindsQuantilesToWithinTwoPercent) {
  Histogram histogram;
  for (std::uint64_t i = 1; i <= 1'000'000; ++i) {
    histogram.add(i);
  }

  EXPECT_NEAR(histogram.quantile(0.5), 500'000, 10'000);
  EXPECT_NEAR(histogram.quantile(0.99), 990'000, 20'000);
  EXPECT_NEAR(histogram.quantile(1), 1'000'000, 20'000);
}

TEST(HistogramTest, IsExactForSmallNumbers) {
  Histogram histogram;
  histogram.add(3, 99);
  histogram.add(100);

  EXPECT_EQ(histogram.quantile(0.5), 3);
  EXPECT_EQ(histogram.quantile(0.99), 3);
  EXPECT_EQ(histogram.quantile(1), 100);
  EXPECT_EQ(histogram.total(), 100U);
}

TEST(HistogramTest, TakesAnyNumber) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0);
  histogram.add(0);
  EXPECT_EQ(histogram.quantile(1), 0);
  histogram.add(~std::uint64_t{0});
  EXPECT_GT(histogram.quantile(1), 1.8e19);
}

}  // namespace
}  // namespace unisono::bench
