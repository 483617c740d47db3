#include "unisono/ddp/bucket_assignment.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Limits = std::vector<std::size_t>;

/// What is assigned are types and sizes: nobody looks at the elements.
Tensor tensorOf(DType type, std::int64_t count) {
  static std::byte memory[1];
  return {memory, type, Dims{count}};
}
Tensor floats(std::int64_t count) {
  return tensorOf(DType::FLOAT32, count);
}
Tensor doubles(std::int64_t count) {
  return tensorOf(DType::FLOAT64, count);
}

TEST(BucketAssignmentTest, ClosesABucketThatHasReachedItsLimit) {
  const std::vector<Tensor> tensors = {floats(100), floats(200), floats(100), floats(50)};

  const BucketAssignment given = computeBucketAssignmentBySize(tensors, Limits{400});

  EXPECT_EQ(given.buckets, (BucketIndices{{0}, {1}, {2}, {3}}));
  EXPECT_THAT(given.limits, ElementsAre(400, 400, 400, 400));
}

TEST(BucketAssignmentTest, KeepsTypesApart) {
  const std::vector<Tensor> tensors = {floats(50),  doubles(25), floats(50),
                                       doubles(25), floats(50),  doubles(25)};

  EXPECT_EQ(computeBucketAssignmentBySize(tensors, Limits{400}).buckets,
            (BucketIndices{{0, 2}, {1, 3}, {4}, {5}}));
}

TEST(BucketAssignmentTest, TakesLimitsOneAfterTheOtherAndKeepsTheLast) {
  const std::vector<Tensor> four(4, floats(10));
  const BucketAssignment given = computeBucketAssignmentBySize(four, Limits{40, 80});
  EXPECT_EQ(given.buckets, (BucketIndices{{0}, {1, 2}, {3}}));
  EXPECT_THAT(given.limits, ElementsAre(40, 80, 80));

  const std::vector<Tensor> three(3, floats(10));
  const BucketAssignment few = computeBucketAssignmentBySize(three, Limits{40, 80, 1000});
  EXPECT_EQ(few.buckets, (BucketIndices{{0}, {1, 2}}));
  EXPECT_THAT(few.limits, ElementsAre(40, 80));
}

TEST(BucketAssignmentTest, GivesEveryTypeItsOwnFirstLimit) {
  const std::vector<Tensor> tensors = {floats(50),  doubles(25), floats(50),
                                       doubles(25), floats(50),  doubles(25)};

  const BucketAssignment given = computeBucketAssignmentBySize(tensors, Limits{200, 400});

  EXPECT_EQ(given.buckets, (BucketIndices{{0}, {1}, {2, 4}, {3, 5}}));
  EXPECT_THAT(given.limits, ElementsAre(200, 200, 400, 400));
}

TEST(BucketAssignmentTest, TensorsWithoutElementsFillNothing) {
  const std::vector<Tensor> tensors(2, floats(0));
  const BucketAssignment given = computeBucketAssignmentBySize(tensors, Limits{1});
  EXPECT_EQ(given.buckets, (BucketIndices{{0, 1}}));
  EXPECT_THAT(given.limits, ElementsAre(1));
}

TEST(BucketAssignmentTest, ASparseTensorIsAlone) {
  const std::vector<Tensor> tensors(3, floats(10));
  const std::vector<bool> sparse = {false, true, false};

  const BucketAssignment given = computeBucketAssignmentBySize(tensors, Limits{1000}, sparse);
  EXPECT_EQ(given.buckets, (BucketIndices{{0, 2}, {1}}));
  EXPECT_THAT(given.limits, ElementsAre(1000, 0));

  const std::vector<std::size_t> order = {1, 2, 0};
  const BucketAssignment named =
      computeBucketAssignmentBySize(tensors, Limits{1000}, sparse, order);
  EXPECT_EQ(named.buckets, (BucketIndices{{1}, {2, 0}}));
  EXPECT_THAT(named.limits, ElementsAre(0, 1000));
}

TEST(BucketAssignmentTest, ClosesTailsInTheOrderInWhichTypesWereSeen) {
  const std::vector<Tensor> tensors = {doubles(1), floats(1), tensorOf(DType::FLOAT16, 1),
                                       floats(1)};
  const std::vector<std::size_t> order = {3, 2, 1, 0};
  EXPECT_EQ(computeBucketAssignmentBySize(tensors, Limits{1000}, {}, order).buckets,
            (BucketIndices{{3}, {2, 0}, {1}}));
}

TEST(BucketAssignmentTest, RefusesListsThatDoNotFit) {
  const std::vector<Tensor> tensors(3, floats(10));
  const auto refusal = [&](auto... arguments) {
    return textOf<UsageError>([&] { computeBucketAssignmentBySize(arguments...); });
  };
  const std::vector<bool> sparse = {true, false, false};
  const std::vector<std::size_t> two = {1, 2};
  const std::vector<std::size_t> beyond = {1, 2, 3};
  const std::span<const Tensor> all(tensors);

  EXPECT_THAT(refusal(all, Limits{}), HasSubstr("at least one limit"));
  EXPECT_THAT(refusal(all.first(0), Limits{1}), HasSubstr("no tensors"));
  EXPECT_THAT(refusal(all, Limits{1}, std::vector<bool>{true}), HasSubstr("sparse"));
  EXPECT_THAT(refusal(all, Limits{1}, std::vector<bool>{}, two), HasSubstr("2 indices"));
  EXPECT_THAT(refusal(all, Limits{1}, sparse, beyond), HasSubstr("no tensor 3"));
}

}  // namespace
}  // namespace unisono
