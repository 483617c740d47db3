#include "work/overlap.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace unisono::detail {
namespace {

const std::byte* endOf(const Tensor& tensor) noexcept {
  return static_cast<const std::byte*>(tensor.data()) + tensor.bytes();
}

std::vector<std::size_t> byAddress(std::span<const Tensor> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::less<>()(tensors[a].data(), tensors[b].data());
  });
  return order;
}

/// What has been passed on the way through memory. A tensor that begins no earlier can share
/// memory only with the last one, if they begin at the same place, or with the one in C order that
/// reaches furthest.
class Front {
 public:
  void pass(std::span<const Tensor> tensors, std::size_t index) noexcept {
    const Tensor& tensor = tensors[index];
    if (tensor.numel() == 0) {
      return;
    }
    last_ = index;
    if (tensor.isContiguous() && (!furthest_ || endOf(tensors[*furthest_]) < endOf(tensor))) {
      furthest_ = index;
    }
  }

  /// One that was passed and shares memory with `next`.
  std::optional<std::size_t> sharing(std::span<const Tensor> tensors, const Tensor& next,
                                     bool twinsAllowed) const noexcept {
    for (const std::optional<std::size_t>& passed : {last_, furthest_}) {
      if (passed && shareMemory(tensors[*passed], next) &&
          !(twinsAllowed && sameView(tensors[*passed], next))) {
        return passed;
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<std::size_t> last_;
  std::optional<std::size_t> furthest_;
};

}  // namespace

bool sameView(const Tensor& a, const Tensor& b) noexcept {
  return a.data() == b.data() && a.dtype() == b.dtype() && a.numel() == b.numel() &&
         (a.isContiguous() ? b.isContiguous()
                           : a.sizes() == b.sizes() && a.strides() == b.strides());
}

bool shareMemory(const Tensor& a, const Tensor& b) noexcept {
  if (a.numel() == 0 || b.numel() == 0) {
    return false;
  }
  if (a.isContiguous() && b.isContiguous()) {
    return a.data() < endOf(b) && b.data() < endOf(a);
  }
  return a.data() == b.data();
}

std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> tensors,
                                                                bool twinsAllowed) {
  if (tensors.size() < 2) {
    return std::nullopt;
  }
  Front front;
  for (const std::size_t i : byAddress(tensors)) {
    const std::optional<std::size_t> other = front.sharing(tensors, tensors[i], twinsAllowed);
    if (other) {
      return std::minmax(*other, i);
    }
    front.pass(tensors, i);
  }
  return std::nullopt;
}

std::optional<std::pair<std::size_t, std::size_t>> sharedMemory(std::span<const Tensor> inputs,
                                                                std::span<const Tensor> outputs,
                                                                std::size_t except) {
  if (inputs.size() == 1 && outputs.size() == 1) {
    return except != 0 && shareMemory(inputs[0], outputs[0]) ? std::optional(std::pair(0UL, 0UL))
                                                             : std::nullopt;
  }
  const std::vector<std::size_t> inputOrder = byAddress(inputs);
  const std::vector<std::size_t> outputOrder = byAddress(outputs);
  Front inputFront;
  Front outputFront;
  std::size_t passed = 0;  // outputs that begin no later than the input
  for (const std::size_t i : inputOrder) {
    for (; passed < outputOrder.size(); ++passed) {
      const Tensor& output = outputs[outputOrder[passed]];
      if (std::less<>()(inputs[i].data(), output.data())) {
        break;
      }
      if (const auto input = inputFront.sharing(inputs, output, false)) {
        return std::pair(*input, outputOrder[passed]);
      }
      outputFront.pass(outputs, outputOrder[passed]);
    }
    if (i == except) {
      continue;
    }
    if (const auto output = outputFront.sharing(outputs, inputs[i], false)) {
      return std::pair(i, *output);
    }
    inputFront.pass(inputs, i);
  }
  for (; passed < outputOrder.size(); ++passed) {
    if (const auto input = inputFront.sharing(inputs, outputs[outputOrder[passed]], false)) {
      return std::pair(*input, outputOrder[passed]);
    }
  }
  return std::nullopt;
}

}  // namespace unisono::detail
