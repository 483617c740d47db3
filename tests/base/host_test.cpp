#include "base/host.hpp"

#include <gtest/gtest.h>

namespace unisono {
namespace {

constexpr auto kAll = static_cast<std::uint32_t>(CpuShare::kMostCores);

TEST(CpuShareTest, TogetherTwoMayUseTheCoresOfEither) {
  CpuShare share{.cores = {0b0110}, .quota = kAll, .padding = 0};
  share.join({.cores = {0b0010, 1}, .quota = kAll, .padding = 0});

  EXPECT_EQ(share.count(), 3);
}

TEST(CpuShareTest, TheSmallerQuotaCounts) {
  CpuShare share{.cores = {0xFF}, .quota = kAll, .padding = 0};
  EXPECT_EQ(share.count(), 8);
  share.join({.cores = {0xFF}, .quota = 2, .padding = 0});
  EXPECT_EQ(share.count(), 2);
  share.join({.cores = {0xFF}, .quota = 4, .padding = 0});
  EXPECT_EQ(share.count(), 2);
}

TEST(CpuShareTest, NobodyHasLessThanOneCore) {
  EXPECT_EQ(CpuShare{}.count(), 1);
  EXPECT_GE(cpuShare().count(), 1);
}

}  // namespace
}  // namespace unisono
