#include "unisono/work/op_type.hpp"

#include <gtest/gtest.h>

namespace unisono {
namespace {

TEST(OpTypeTest, HasTheNumbersAndNamesOfC10d) {
  EXPECT_EQ(static_cast<int>(OpType::BROADCAST), 0);
  EXPECT_EQ(static_cast<int>(OpType::BARRIER), 15);
  EXPECT_EQ(static_cast<int>(OpType::ALLGATHER_INTO_TENSOR_COALESCED), 20);
  EXPECT_EQ(static_cast<int>(OpType::UNKNOWN), 100);
  EXPECT_EQ(name(OpType::ALLREDUCE), "ALLREDUCE");
  EXPECT_EQ(name(OpType::ALLGATHER_BASE), "_ALLGATHER_BASE");
  EXPECT_EQ(name(OpType::ALLREDUCE_SPARSE), "_ALLREDUCE_SPARSE");
  EXPECT_EQ(name(OpType::REDUCE_SCATTER_BASE), "_REDUCE_SCATTER_BASE");
}

TEST(OpTypeTest, HasTheNameThatUsersKnow) {
  EXPECT_EQ(opName(OpType::ALLREDUCE), "all_reduce");
  EXPECT_EQ(opName(OpType::ALLTOALL_BASE), "all_to_all_single");
  EXPECT_EQ(methodName(OpType::ALLGATHER_INTO_TENSOR_COALESCED), "allgather_into_tensor_coalesced");
}

TEST(OpTypeTest, AnyOtherNumberIsUnknown) {
  EXPECT_EQ(name(OpType::UNKNOWN), "UNKNOWN");
  EXPECT_EQ(name(static_cast<OpType>(21)), "UNKNOWN");
}

TEST(OpTypeTest, APointToPointOperationInABatchCountsAsTheBatch) {
  EXPECT_TRUE(isP2POp(OpType::SEND));
  EXPECT_TRUE(isP2POp(OpType::RECVANYSOURCE));
  EXPECT_FALSE(isP2POp(OpType::BARRIER));
  EXPECT_FALSE(isP2POp(OpType::SEND, true));
}

}  // namespace
}  // namespace unisono
