#include "store/file/owners.hpp"

#include <fstream>
#include <gmock/gmock.h>

#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::Child;

RecordLog logOf(const std::vector<Record>& records) {
  RecordLog log;
  const std::string bytes = encodeChange(records);
  EXPECT_TRUE(log.replay(bytes, bytes.size()).isOk());
  return log;
}

Record refcount(int count) {
  return {std::string(kRefcountKey), str(count)};
}

/// A process of this host that is gone for certain.
ProcessMark deadProcess() {
  ProcessMark mark = thisProcess();
  mark.startTicks += 1;
  return mark;
}

TEST(OccupancyTest, IsStaleOnlyWhenEverybodyIsKnownToBeGone) {
  const ProcessMark here = thisProcess();
  const Record dead = openRecord("1", deadProcess());
  ProcessMark elsewhere = here;
  elsewhere.boot = "another-boot";
  elsewhere.host = "another-host";

  EXPECT_TRUE(readOccupancy(logOf({dead, dead, refcount(2)}), here).isStale());
  EXPECT_TRUE(readOccupancy(logOf({dead, closeRecord("1"), refcount(0)}), here).isStale());
  EXPECT_TRUE(readOccupancy(logOf({{std::string(kHeaderKey), "id"}}), here).isStale());
  EXPECT_FALSE(readOccupancy(logOf({dead, openRecord("2", here), refcount(2)}), here).isStale());
  EXPECT_FALSE(
      readOccupancy(logOf({dead, openRecord("2", elsewhere), refcount(2)}), here).isStale());
  EXPECT_FALSE(readOccupancy(logOf({dead, {std::string(kOpenKey), "2 garbage"}, refcount(2)}), here)
                   .isStale());
}

TEST(OccupancyTest, CountsObjectsOfPyTorchThatHaveNotLeft) {
  const ProcessMark here = thisProcess();
  const Record dead = openRecord("1", deadProcess());

  EXPECT_EQ(readOccupancy(logOf({refcount(2)}), here).stock, 2);
  EXPECT_EQ(readOccupancy(logOf({dead, refcount(2)}), here).stock, 1);
  EXPECT_EQ(readOccupancy(logOf({dead, closeRecord("1"), refcount(1)}), here).stock, 1);
  EXPECT_FALSE(readOccupancy(logOf({dead, refcount(2)}), here).isStale());
  EXPECT_FALSE(readOccupancy(logOf({refcount(0)}), here).isStale()) << "not ours to judge";
}

}  // namespace
}  // namespace unisono
