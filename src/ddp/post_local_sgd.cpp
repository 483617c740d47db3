#include "unisono/ddp/post_local_sgd.hpp"

#include <utility>

#include "ddp/average.hpp"

namespace unisono::hooks {

PostLocalSGD::PostLocalSGD(Group group, Group subgroup, PostLocalSGDOptions options)
    : group_(std::move(group)), subgroup_(std::move(subgroup)), options_(options) {}

PostLocalSGD::~PostLocalSGD() = default;

Future PostLocalSGD::run(GradBucket& bucket) {
  const bool isEarly = iter_ < options_.startIter;
  if (bucket.isLast()) {
    ++iter_;
  }
  if (!isEarly && !options_.averageLater) {
    return Future::ready(bucket.buffer());
  }
  return ddp::startAverage(isEarly ? group_ : subgroup_, bucket.buffer());
}

void PostLocalSGD::useGroup(const Group& group) {
  group_ = group;
  iter_ = 0;
}

void PostLocalSGD::useSubgroup(const Group& subgroup) {
  subgroup_ = subgroup;
}

}  // namespace unisono::hooks
