#include "base/cgroup.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>

#include "support/support.hpp"

namespace unisono {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

class CgroupTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder.file("root/" + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  CgroupPlaces places(const std::string& own) {
    std::ofstream(folder.file("own")) << own;
    return {.own = folder.file("own"), .root = folder.file("root")};
  }

  test::TempDir folder;
};

TEST_F(CgroupTest, WithoutLimitsThereIsRoomForAnything) {
  EXPECT_EQ(cgroupMemoryLeft(places("0::/\n")), kNoLimit);
  EXPECT_GT(cgroupCpuQuota(places("0::/\n")), 1e6);
  EXPECT_EQ(cgroupMemoryLeft(places("")), kNoLimit);
  EXPECT_EQ(cgroupMemoryLeft(places("garbage\n\n:\n")), kNoLimit);
}

TEST_F(CgroupTest, TheTightestGroupOnTheWayUpCounts) {
  write("a/b/memory.max", "1000");
  write("a/b/memory.current", "100");
  write("a/memory.max", "500");
  write("a/memory.current", "450");
  write("a/b/cpu.max", "max 100000");
  write("a/cpu.max", "150000 100000");

  EXPECT_EQ(cgroupMemoryLeft(places("0::/a/b\n")), 50U);
  EXPECT_DOUBLE_EQ(cgroupCpuQuota(places("0::/a/b\n")), 1.5);
}

TEST_F(CgroupTest, MaxIsNoLimitAndMoreThanAllowedIsNoRoom) {
  write("a/memory.max", "max");
  write("a/memory.current", "100");
  EXPECT_EQ(cgroupMemoryLeft(places("0::/a\n")), kNoLimit);

  write("b/memory.max", "100");
  write("b/memory.current", "900");
  EXPECT_EQ(cgroupMemoryLeft(places("0::/b\n")), 0U);
}

TEST_F(CgroupTest, FilesThatNobodyUsesTakeNoRoom) {
  write("a/memory.max", "1000");
  write("a/memory.current", "900");
  write("a/memory.stat", "anon 100\nfile 800\ninactive_file 700\nactive_file 100");
  EXPECT_EQ(cgroupMemoryLeft(places("0::/a\n")), 800U);

  write("memory/a/memory.limit_in_bytes", "1000");
  write("memory/a/memory.usage_in_bytes", "900");
  write("memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 600");
  EXPECT_EQ(cgroupMemoryLeft(places("4:memory:/a\n")), 700U);
}

TEST_F(CgroupTest, TheHostsMemoryCountsToo) {
  write("meminfo", "MemTotal: 9000 kB\nMemAvailable:     17 kB\nSwapFree: 1 kB");
  EXPECT_EQ(hostMemoryLeft(folder.file("root/meminfo")), 17U * 1024);
  EXPECT_EQ(hostMemoryLeft(folder.file("root/none")), kNoLimit);
  EXPECT_LT(memoryLeft(), 1UL << 50U);
}

TEST_F(CgroupTest, TheFirstVersionHasAFolderPerController) {
  write("memory/job/memory.limit_in_bytes", "4096");
  write("memory/job/memory.usage_in_bytes", "1096");
  write("cpu/job/cpu.cfs_quota_us", "50000");
  write("cpu/job/cpu.cfs_period_us", "100000");
  const CgroupPlaces own = places("5:memory:/job\n3:cpu,cpuacct:/job\n");

  EXPECT_EQ(cgroupMemoryLeft(own), 3000U);
  EXPECT_DOUBLE_EQ(cgroupCpuQuota(own), 0.5);
}

}  // namespace
}  // namespace unisono
