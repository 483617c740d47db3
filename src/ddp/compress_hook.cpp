// Gradients travel as numbers of 16 bits.
#include <utility>

#include "unisono/ddp/hooks.hpp"

#include "ddp/arithmetic.hpp"
#include "ddp/kept_rows.hpp"

namespace unisono::hooks {
namespace {

class CompressHook final : public CommHook {
 public:
  CompressHook(Group group, DType type) : group_(std::move(group)), type_(type), rows_(group_) {}

  Future run(GradBucket& bucket) override {
    ddp::requireRealNumbers(bucket, type_ == DType::FLOAT16 ? "fp16Compress" : "bf16Compress");
    const Tensor whole = bucket.buffer();
    const Tensor narrow = rows_.get(bucket.index(), whole.numel(), type_);
    ddp::convert(narrow, whole, group_.size());  // divided first: the sum may be out of range
    const Future sum = group_.processGroup().allreduce(narrow)->getFuture();
    return sum.then([whole, narrow](const Future& done) -> TensorList {
      static_cast<void>(done.value());  // throws what it failed with
      ddp::convert(whole, narrow);
      return whole;
    });
  }

  void useGroup(const Group& group) override {
    group_ = group;
    rows_ = ddp::KeptRows(group);
  }

 private:
  Group group_;
  const DType type_;
  ddp::KeptRows rows_;
};

}  // namespace

std::shared_ptr<CommHook> fp16Compress(Group group) {
  return std::make_shared<CompressHook>(std::move(group), DType::FLOAT16);
}

std::shared_ptr<CommHook> bf16Compress(Group group) {
  return std::make_shared<CompressHook>(std::move(group), DType::BFLOAT16);
}

}  // namespace unisono::hooks
