#include "unisono/ddp/comm_hook.hpp"

#include <utility>

#include "unisono/ddp/hooks.hpp"

#include "base/check.hpp"
#include "ddp/memory.hpp"

namespace unisono {

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

void CommHook::useGroup(const Group& /*group*/) {}

std::string_view name(BuiltinCommHookType type) noexcept {
  return type == BuiltinCommHookType::ALLREDUCE ? "ALLREDUCE" : "FP16_COMPRESS";
}

std::shared_ptr<CommHook> makeCommHook(BuiltinCommHookType type, Group group) {
  switch (type) {
    case BuiltinCommHookType::ALLREDUCE:
      return hooks::allreduce(std::move(group));
    case BuiltinCommHookType::FP16_COMPRESS:
      return hooks::fp16Compress(std::move(group));
  }
  UNISONO_CHECK(false, "there is no communication hook of the number ", static_cast<int>(type));
  return nullptr;
}

}  // namespace unisono
