#include "unisono/tensor/tensor.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

constexpr auto kMostBytes = static_cast<std::int64_t>(std::numeric_limits<std::int64_t>::max() / 2);

std::string listed(const Dims& sizes) {
  std::vector<std::string> parts;
  for (const std::int64_t size : sizes) {
    parts.push_back(str(size));
  }
  return join(parts, ", ");
}

/// The number of elements, after checking that it and the bytes are numbers at all.
std::int64_t countElements(const Dims& sizes, DType type) {
  std::int64_t count = 1;
  bool tooMany = false;
  bool none = false;
  for (const std::int64_t size : sizes) {
    UNISONO_CHECK(size >= 0, "a tensor cannot have the size ", size, " in one dimension");
    none = none || size == 0;
    std::int64_t next = 0;
    tooMany = tooMany || __builtin_mul_overflow(count, size, &next);
    count = tooMany ? count : next;
  }
  const auto width = static_cast<std::int64_t>(elementSize(type));
  UNISONO_CHECK(none || (!tooMany && count <= kMostBytes / width), "a tensor of ", name(type), "[",
                listed(sizes), "] is larger than any memory");
  return none ? 0 : count;
}

bool isCOrder(const Dims& sizes, const Dims& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= sizes[i];
  }
  return true;
}

}  // namespace

Dims& Dims::operator=(const Dims& other) {
  if (this != &other) {
    Dims copy(other);
    *this = std::move(copy);
  }
  return *this;
}

bool Dims::operator==(const Dims& other) const noexcept {
  return std::equal(begin(), end(), other.begin(), other.end());
}

void Dims::assign(std::span<const std::int64_t> values) {
  std::int64_t* into = few_;
  if (values.size() > kInline) {
    into = many_ = new std::int64_t[values.size()];
  }
  std::copy(values.begin(), values.end(), into);
  size_ = values.size();
}

Tensor::Tensor(void* data, DType type, Dims sizes, Device device,
               std::shared_ptr<const void> keepAlive)
    : data_(data),
      numel_(countElements(sizes, type)),
      dtype_(type),
      defined_(true),
      device_(device),
      sizes_(std::move(sizes)),
      keepAlive_(std::move(keepAlive)) {
  UNISONO_CHECK(data != nullptr || numel_ == 0, "a tensor of ", numel_,
                " elements has no memory: its address is null");
}

Tensor::Tensor(void* data, DType type, Dims sizes, Dims strides, Device device,
               std::shared_ptr<const void> keepAlive)
    : Tensor(data, type, std::move(sizes), device, std::move(keepAlive)) {
  UNISONO_CHECK(strides.size() == sizes_.size(), "a tensor of ", sizes_.size(), " dimensions has ",
                strides.size(), " strides");
  if (numel_ > 1 && !isCOrder(sizes_, strides)) {
    strides_ = std::move(strides);
  }
}

std::span<std::byte> Tensor::extent() const noexcept {
  auto* first = static_cast<std::byte*>(data_);
  if (strides_.empty()) {
    return {first, bytes()};
  }
  std::int64_t low = 0;
  std::int64_t high = 1;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const std::int64_t reach = (sizes_[i] - 1) * strides_[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto width = static_cast<std::int64_t>(elementSize(dtype_));
  return {first + low * width, static_cast<std::size_t>((high - low) * width)};
}

bool Tensor::mayOverlap(const Tensor& other) const noexcept {
  const std::span<std::byte> mine = extent();
  const std::span<std::byte> theirs = other.extent();
  return mine.data() < theirs.data() + theirs.size() && theirs.data() < mine.data() + mine.size();
}

/// Whether a view reaches every element once. Sorted by stride, each dimension must step over all
/// that the smaller ones reach: true of every view that slicing and transposing make.
bool Tensor::overlapsItself() const {
  if (strides_.empty()) {
    return false;
  }
  struct Step {
    std::int64_t stride;
    std::int64_t size;
  };
  std::vector<Step> steps;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] > 1) {
      steps.push_back({std::abs(strides_[i]), sizes_[i]});
    }
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.stride < b.stride; });
  std::int64_t reach = 0;
  for (const Step& step : steps) {
    if (step.stride <= reach) {
      return true;
    }
    reach += step.stride * (step.size - 1);
  }
  return false;
}

std::string Tensor::describe() const {
  return str(name(dtype_), "[", listed(sizes_), "]");
}

Tensor slice(const Tensor& whole, std::int64_t offset, std::int64_t count) {
  UNISONO_CHECK(whole.isContiguous(), "a slice of a strided tensor is no row");
  UNISONO_CHECK(offset >= 0 && count >= 0 && offset <= whole.numel() - count, "elements ", offset,
                " to ", offset + count, " are not in ", whole.describe());
  auto* data = static_cast<std::byte*>(whole.data());
  const auto width = static_cast<std::int64_t>(elementSize(whole.dtype()));
  return {data == nullptr ? nullptr : data + offset * width, whole.dtype(), Dims{count},
          whole.device(), whole.keepAlive()};
}

}  // namespace unisono
