// Another hook works on the gradients as numbers of 16 bits.
#include <string>
#include <utility>

#include "unisono/ddp/hooks.hpp"

#include "base/check.hpp"
#include "ddp/arithmetic.hpp"
#include "ddp/kept_rows.hpp"

namespace unisono::hooks {
namespace {

/// What the other hook gave, which goes where the bucket was.
void convertBack(const Tensor& whole, const TensorList& given, std::size_t bucket) {
  const bool isRow = given.size() == 1 && given[0].defined() && given[0].isContiguous();
  UNISONO_CHECK(isRow && given[0].numel() == whole.numel() && isFloatingPoint(given[0].dtype()),
                "the hook inside a wrapper gave ",
                isRow ? given[0].describe() : str(given.size(), " tensors"), " for bucket ", bucket,
                ", of which ", whole.numel(), " real numbers in a row are to be made");
  ddp::convert(whole, given[0]);
}

class WrapperHook final : public CommHook {
 public:
  WrapperHook(std::shared_ptr<CommHook> hook, DType type) : hook_(std::move(hook)), type_(type) {
    UNISONO_CHECK(hook_ != nullptr, "there is no hook to be wrapped");
  }

  Future run(GradBucket& bucket) override {
    ddp::requireRealNumbers(bucket, type_ == DType::FLOAT16 ? "fp16Wrapper" : "bf16Wrapper");
    const Tensor whole = bucket.buffer();
    const Tensor& narrow = rows_.get(bucket.index(), whole.numel(), type_);
    ddp::convert(narrow, whole);
    bucket.setBuffer(narrow);
    const std::size_t index = bucket.index();
    return hook_->run(bucket).then([whole, index](const Future& done) -> TensorList {
      convertBack(whole, done.value(), index);
      return whole;
    });
  }

  void useGroup(const Group& group) override { hook_->useGroup(group); }

 private:
  const std::shared_ptr<CommHook> hook_;
  const DType type_;
  ddp::KeptRows rows_;
};

}  // namespace

std::shared_ptr<CommHook> fp16Wrapper(std::shared_ptr<CommHook> hook) {
  return std::make_shared<WrapperHook>(std::move(hook), DType::FLOAT16);
}

std::shared_ptr<CommHook> bf16Wrapper(std::shared_ptr<CommHook> hook) {
  return std::make_shared<WrapperHook>(std::move(hook), DType::BFLOAT16);
}

}  // namespace unisono::hooks
