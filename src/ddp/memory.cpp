#include "ddp/memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/check.hpp"
#include "base/log.hpp"
#include "reduction/copy.hpp"
#include "tensor/strided.hpp"

namespace unisono::ddp {

Tensor ordinaryMemory(std::int64_t count, DType type) {
  const auto bytes = static_cast<std::size_t>(count) * elementSize(type);
  try {
    auto memory = std::make_shared<std::vector<std::byte>>(std::max<std::size_t>(bytes, 1));
    return {memory->data(), type, Dims{count}, Device{}, memory};
  } catch (const std::exception&) {  // bad_alloc, or length_error where no memory is as large
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("there is no memory for ", count, " elements of ", name(type),
                                 ", which are ", formatBytes(bytes)),
                     .hint = "smaller buckets do not help: it is what all gradients take that does "
                             "not fit; give the rank more memory, or train less at once"});
  }
}

Tensor registeredMemory(const Group& group, std::int64_t count, DType type) {
  const std::shared_ptr<Backend> backend = group.processGroup().backend(DeviceType::CPU);
  if (!backend->supportsTensorAlloc(Device{})) {
    return ordinaryMemory(count, type);
  }
  try {
    return backend->allocateTensor(count, type);
  } catch (const DistError& error) {
    if (error.reason() != Reason::RESOURCE && error.reason() != Reason::LIMIT) {
      throw;
    }
    UNISONO_LOG(INFO, "ddp", "a bucket is in ordinary memory, which is slower: ", error.what());
    return ordinaryMemory(count, type);
  }
}

bool isSameView(const Tensor& a, const Tensor& b) noexcept {
  return a.data() == b.data() && a.dtype() == b.dtype() && a.numel() == b.numel() &&
         a.strides() == b.strides() && (a.isContiguous() || a.sizes() == b.sizes());
}

void copyElements(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) {
    return;  // there may be no memory at all
  }
  if (to.strides() == from.strides() && isDense(to)) {
    copyBytes(to.dataAs<std::byte>(), from.dataAs<const std::byte>(), to.bytes());
  } else if (to.isContiguous()) {
    pack(to.dataAs<std::byte>(), from);
  } else if (from.isContiguous()) {
    unpack(to, from.dataAs<const std::byte>());
  } else {
    std::vector<std::byte> row(from.bytes());
    pack(row.data(), from);
    unpack(to, row.data());
  }
}

void clearElements(const Tensor& view) {
  if (view.numel() == 0) {
    return;
  }
  if (isDense(view)) {
    std::memset(view.data(), 0, view.bytes());
  } else {
    unpack(view, std::vector<std::byte>(view.bytes()).data());
  }
}

bool isDense(const Tensor& tensor) {
  return tensor.isContiguous() ||
         (tensor.extent().data() == tensor.dataAs<std::byte>() &&
          tensor.extent().size() == tensor.bytes() && !tensor.overlapsItself());
}

Tensor viewLike(const Tensor& like, const Tensor& row, std::int64_t offset) {
  auto* data =
      row.dataAs<std::byte>() + static_cast<std::size_t>(offset) * elementSize(row.dtype());
  if (like.isContiguous() || !isDense(like)) {
    return {data, row.dtype(), like.sizes(), row.device(), row.keepAlive()};
  }
  return {data, row.dtype(), like.sizes(), like.strides(), row.device(), row.keepAlive()};
}

}  // namespace unisono::ddp
