// TensorList: a few tensors, most often one, which is kept in place.
//
// Nearly every collective is about one tensor, and a std::vector would allocate for it. More than
// one are in a vector, which is taken over as it is.
//
//   TensorList one = tensor;  TensorList two = {a, b};  TensorList many = std::move(vector);
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "unisono/tensor/tensor.hpp"

namespace unisono {

class TensorList {
 public:
  TensorList() noexcept {}
  TensorList(const Tensor& only) : count_(1), one_(only) {}                 // NOLINT: converts
  TensorList(Tensor&& only) noexcept : count_(1), one_(std::move(only)) {}  // NOLINT: converts
  TensorList(std::vector<Tensor> many) { adopt(std::move(many)); }          // NOLINT: converts
  TensorList(std::initializer_list<Tensor> many) {
    if (many.size() == 1) {
      std::construct_at(&one_, *many.begin());
      count_ = 1;
    } else {
      adopt(std::vector<Tensor>(many));
    }
  }
  TensorList(const TensorList& other) { copy(other); }
  TensorList(TensorList&& other) noexcept { take(other); }
  TensorList& operator=(const TensorList& other) {
    if (this != &other) {
      TensorList copied(other);
      *this = std::move(copied);
    }
    return *this;
  }
  TensorList& operator=(TensorList&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~TensorList() { clear(); }

  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  Tensor* data() noexcept { return count_ > 1 ? many_.data() : &one_; }
  const Tensor* data() const noexcept { return count_ > 1 ? many_.data() : &one_; }
  Tensor& operator[](std::size_t index) noexcept { return data()[index]; }
  const Tensor& operator[](std::size_t index) const noexcept { return data()[index]; }
  const Tensor* begin() const noexcept { return data(); }
  const Tensor* end() const noexcept { return data() + count_; }
  operator std::span<const Tensor>() const noexcept { return {data(), count_}; }  // NOLINT
  std::vector<Tensor> toVector() const { return {begin(), end()}; }

  void append(Tensor tensor) {
    if (count_ == 0) {
      std::construct_at(&one_, std::move(tensor));
    } else if (count_ > 1) {
      many_.push_back(std::move(tensor));
    } else {
      std::vector<Tensor> both;
      both.reserve(2);
      both.push_back(one_);
      both.push_back(std::move(tensor));
      std::destroy_at(&one_);
      std::construct_at(&many_, std::move(both));
    }
    ++count_;
  }

  void clear() noexcept {
    if (count_ == 1) {
      std::destroy_at(&one_);
    } else if (count_ > 1) [[unlikely]] {
      std::destroy_at(&many_);
    }
    count_ = 0;
  }

 private:
  void adopt(std::vector<Tensor>&& many) noexcept {
    count_ = many.size();
    if (count_ == 1) {
      std::construct_at(&one_, std::move(many.front()));
    } else if (count_ > 1) {
      std::construct_at(&many_, std::move(many));
    }
  }
  void copy(const TensorList& other) {
    if (other.count_ == 1) {
      std::construct_at(&one_, other.one_);
    } else if (other.count_ > 1) {
      std::construct_at(&many_, other.many_);
    }
    count_ = other.count_;
  }
  void take(TensorList& other) noexcept {
    if (other.count_ == 1) {
      std::construct_at(&one_, std::move(other.one_));
    } else if (other.count_ > 1) [[unlikely]] {
      std::construct_at(&many_, std::move(other.many_));
    }
    count_ = other.count_;
    other.clear();
  }

  std::size_t count_ = 0;  // one_ is alive when 1, many_ when more
  union {
    Tensor one_;
    std::vector<Tensor> many_;
  };
};

}  // namespace unisono
