// What tests of a Reducer train: parameters, gradients that differ on each rank, step and place,
// and what their averages are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "unisono/ddp/reducer.hpp"

#include "base/str.hpp"

namespace unisono::test {

/// So many parameters of a type, the i-th of sizes[i] elements, whose gradients are in memory of
/// the test.
template <typename T>
class Training {
 public:
  explicit Training(std::vector<std::size_t> sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      values_.emplace_back(sizes[i]);
      gradients_.emplace_back(sizes[i]);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      params.push_back({Tensor(values_[i]), str("layer", i)});
    }
  }

  std::size_t size() const { return params.size(); }

  /// What rank `rank` computes in step `step` for element `at` of parameter `param`: small
  /// integers, so that sums are exact in every type.
  static T gradientOf(int rank, int step, std::size_t param, std::size_t at) {
    return static_cast<T>(
        static_cast<float>((rank + 1) * (1 + step % 2) * static_cast<int>((param + 2 * at) % 3)));
  }
  /// The average over `ranks` ranks of which only the first `users` compute one.
  static float averageOf(int ranks, int step, std::size_t param, std::size_t at, int users) {
    float sum = 0;
    for (int rank = 0; rank < users; ++rank) {
      sum += static_cast<float>(gradientOf(rank, step, param, at));
    }
    return sum / static_cast<float>(ranks);
  }

  /// Computes the gradient: where it is already, or else in memory of the test.
  void compute(GradBuffers& host, std::size_t param, int rank, int step) {
    if (!host.grad(param).defined()) {
      host.set(param, Tensor(gradients_[param]));
    }
    T* to = host.grad(param).template dataAs<T>();
    for (std::size_t at = 0; at < values_[param].size(); ++at) {
      to[at] = gradientOf(rank, step, param, at);
    }
  }

  /// The first element of the gradient that is not as expected, or -1.
  int firstWrong(GradBuffers& host, std::size_t param, int ranks, int step, int users) const {
    const T* from = host.grad(param).template dataAs<T>();
    for (std::size_t at = 0; at < values_[param].size(); ++at) {
      const auto expected = static_cast<T>(averageOf(ranks, step, param, at, users));
      if (static_cast<float>(from[at]) != static_cast<float>(expected)) {
        return static_cast<int>(at);
      }
    }
    return -1;
  }

  std::vector<Param> params;

 private:
  std::vector<std::vector<T>> values_;
  std::vector<std::vector<T>> gradients_;
};

/// 0 to count - 1 in an order that the seed decides.
inline std::vector<std::size_t> shuffled(std::size_t count, unsigned seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

}  // namespace unisono::test
