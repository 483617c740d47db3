#include "unisono/ddp/comm_hook.hpp"

#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "ddp/average.hpp"
#include "ddp/memory.hpp"

namespace unisono {
namespace {

class AllreduceHook final : public CommHook {
 public:
  explicit AllreduceHook(Group group) : group_(std::move(group)) {}
  Future run(GradBucket& bucket) override { return ddp::startAverage(group_, bucket.buffer()); }

 private:
  const Group group_;
};

template <typename From, typename To>
void convertElements(const Tensor& to, const Tensor& from) {
  const auto* source = from.dataAs<const From>();
  auto* target = to.dataAs<To>();
  for (std::int64_t i = 0; i < from.numel(); ++i) {
    target[i] = static_cast<To>(static_cast<float>(source[i]));
  }
}

/// Between `wide`, of any type of real numbers, and a row of float16.
void toHalf(const Tensor& half, const Tensor& wide) {
  visit(wide.dtype(), [&]<typename T>(std::type_identity<T>) {
    if constexpr (isFloatingPoint(kDType<T>)) {
      convertElements<T, Half>(half, wide);
    }
  });
}
void fromHalf(const Tensor& wide, const Tensor& half) {
  visit(wide.dtype(), [&]<typename T>(std::type_identity<T>) {
    if constexpr (isFloatingPoint(kDType<T>)) {
      convertElements<Half, T>(wide, half);
    }
  });
}

class Fp16CompressHook final : public CommHook {
 public:
  explicit Fp16CompressHook(Group group) : group_(std::move(group)) {}

  Future run(GradBucket& bucket) override {
    const Tensor buffer = bucket.buffer();
    UNISONO_CHECK(isFloatingPoint(buffer.dtype()), "FP16_COMPRESS cannot make float16 of ",
                  name(buffer.dtype()));
    const Tensor half = rowFor(bucket);
    toHalf(half, buffer);
    return ddp::startAverage(group_, half).then([buffer, half](const Future& done) -> TensorList {
      static_cast<void>(done.value());  // throws what it failed with
      fromHalf(buffer, half);
      return buffer;
    });
  }

 private:
  /// Kept from step to step: memory that others reach is not made in a moment.
  const Tensor& rowFor(const GradBucket& bucket) {
    Tensor& row = rows_[bucket.index()];
    if (!row.defined() || row.numel() != bucket.buffer().numel()) {
      row = ddp::registeredMemory(group_, bucket.buffer().numel(), DType::FLOAT16);
    }
    return row;
  }

  const Group group_;
  std::unordered_map<std::size_t, Tensor> rows_;  // by bucket
};

}  // namespace

GradBucket::GradBucket(std::size_t index, std::size_t bucketCount, Tensor buffer,
                       std::vector<Part> parts)
    : index_(index),
      bucketCount_(bucketCount),
      buffer_(std::move(buffer)),
      parts_(std::move(parts)) {}

void GradBucket::setBuffer(Tensor buffer) {
  UNISONO_CHECK(buffer.defined() && buffer.numel() == buffer_.numel() && buffer.isContiguous(),
                "bucket ", index_, " has ", buffer_.numel(),
                " elements in a row, and cannot be replaced by ",
                buffer.defined() ? buffer.describe() : "no tensor");
  buffer_ = std::move(buffer);
}

std::vector<Tensor> GradBucket::gradients() const {
  std::vector<Tensor> all;
  for (const Part& part : parts_) {
    all.push_back(ddp::viewLike(part.parameter, buffer_, part.offset));
  }
  return all;
}

std::vector<Tensor> GradBucket::parameters() const {
  std::vector<Tensor> all;
  for (const Part& part : parts_) {
    all.push_back(part.parameter);
  }
  return all;
}

CommHook::~CommHook() = default;

std::string_view name(BuiltinCommHookType type) noexcept {
  return type == BuiltinCommHookType::ALLREDUCE ? "ALLREDUCE" : "FP16_COMPRESS";
}

std::shared_ptr<CommHook> makeCommHook(BuiltinCommHookType type, Group group) {
  switch (type) {
    case BuiltinCommHookType::ALLREDUCE:
      return std::make_shared<AllreduceHook>(std::move(group));
    case BuiltinCommHookType::FP16_COMPRESS:
      return std::make_shared<Fp16CompressHook>(std::move(group));
  }
  UNISONO_CHECK(false, "there is no communication hook of the number ", static_cast<int>(type));
  return nullptr;
}

}  // namespace unisono
