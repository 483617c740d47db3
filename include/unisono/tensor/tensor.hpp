// Tensor: a view of elements in memory.
//
// A Tensor says where elements are and what they are; it does not own them, unless it was given
// something to keep alive. Copying one copies the view.
//
//   std::vector<float> weights(1000);
//   Tensor all(weights);                           // 1000 × float32
//   Tensor rows(weights.data(), kDType<float>, {10, 100});
//
// Thread safety: a Tensor is a value; the memory behind it follows the rules of the call it is
// given to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/tensor/device.hpp"
#include "unisono/tensor/dtype.hpp"

namespace unisono {

/// Sizes or strides of a tensor: few numbers, kept in place.
class UNISONO_API Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span<const std::int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) { assign(values); }
  explicit Dims(std::int64_t only) noexcept : size_(1), few_{only} {}
  Dims(const Dims& other) {
    if (other.size_ > kInline) [[unlikely]] {
      assign(other.span());
    } else {
      copyFew(other);
    }
  }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other);
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      if (size_ > kInline) [[unlikely]] {
        delete[] many_;
      }
      take(other);
    }
    return *this;
  }
  ~Dims() {
    if (size_ > kInline) [[unlikely]] {
      delete[] many_;
    }
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const std::int64_t* begin() const noexcept { return size_ > kInline ? many_ : few_; }
  const std::int64_t* end() const noexcept { return begin() + size_; }
  std::int64_t operator[](std::size_t index) const noexcept { return begin()[index]; }
  std::span<const std::int64_t> span() const noexcept { return {begin(), size_}; }
  bool operator==(const Dims& other) const noexcept;

 private:
  static constexpr std::size_t kInline = 4;
  void assign(std::span<const std::int64_t> values);
  /// All places, used or not: four words without a branch are cheaper than a loop or a call, and
  /// tensors are copied and moved on the way of every collective.
  void copyFew(const Dims& other) noexcept {
    size_ = other.size_;
    for (std::size_t i = 0; i < kInline; ++i) {
      few_[i] = other.few_[i];
    }
  }
  void take(Dims& other) noexcept {
    if (other.size_ > kInline) [[unlikely]] {
      size_ = other.size_;
      many_ = other.many_;
    } else {
      copyFew(other);
    }
    other.size_ = 0;
  }

  std::size_t size_ = 0;
  union {
    std::int64_t few_[kInline] = {};
    std::int64_t* many_;
  };
};

class UNISONO_API Tensor {
 public:
  /// No tensor: no memory, no elements.
  Tensor() = default;

  /// Elements one after the other, in C order. Throws UsageError when a size is negative, or the
  /// bytes are more than the address space has, or `data` is null though there are elements.
  Tensor(void* data, DType type, Dims sizes, Device device = {},
         std::shared_ptr<const void> keepAlive = nullptr);

  /// Elements `strides` apart, counted in elements; a stride may be 0 or negative.
  Tensor(void* data, DType type, Dims sizes, Dims strides, Device device = {},
         std::shared_ptr<const void> keepAlive = nullptr);

  template <typename T>
  explicit Tensor(std::span<T> values) noexcept
      : data_(values.data()),
        numel_(static_cast<std::int64_t>(values.size())),
        dtype_(kDType<T>),
        defined_(true),
        sizes_(numel_) {}
  template <typename T>
  explicit Tensor(std::vector<T>& values) : Tensor(std::span<T>(values)) {}

  void* data() const noexcept { return data_; }
  template <typename T>
  T* dataAs() const noexcept {
    return static_cast<T*>(data_);
  }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  const Dims& sizes() const noexcept { return sizes_; }
  /// Empty when the elements lie one after the other.
  const Dims& strides() const noexcept { return strides_; }

  bool defined() const noexcept { return defined_; }
  bool isContiguous() const noexcept { return strides_.empty(); }
  std::int64_t numel() const noexcept { return numel_; }
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(numel_) * elementSize(dtype_);
  }

  /// Whether two elements of this view share memory: such a view cannot be written to.
  bool overlapsItself() const;
  /// Whether any byte between the first and last of both views is the same.
  bool mayOverlap(const Tensor& other) const noexcept;
  /// The bytes from the first to the last element, in memory order.
  std::span<std::byte> extent() const noexcept;

  const std::shared_ptr<const void>& keepAlive() const noexcept { return keepAlive_; }

  /// "float32[10, 100]"
  std::string describe() const;

 private:
  void* data_ = nullptr;
  std::int64_t numel_ = 0;
  DType dtype_ = DType::FLOAT32;
  bool defined_ = false;
  Device device_;
  Dims sizes_;
  Dims strides_;
  std::shared_ptr<const void> keepAlive_;
};

/// Elements `offset` to `offset + count` of a tensor that isContiguous(), as one row.
UNISONO_API Tensor slice(const Tensor& whole, std::int64_t offset, std::int64_t count);

}  // namespace unisono
