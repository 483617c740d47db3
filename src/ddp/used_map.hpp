// UsedMap: which parameters got a gradient, on this rank and on how many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "unisono/work/future.hpp"

namespace unisono::ddp {

class UsedMap {
 public:
  explicit UsedMap(std::size_t params);

  void use(std::size_t param) { here_[param] = 1; }
  bool usedHere(std::size_t param) const { return here_[param] != 0; }

  /// What this rank tells the others: a row that becomes the sum over all ranks, by `sum`.
  const Tensor& tell();
  void told(Future sum) { sum_ = std::move(sum); }
  /// What is to be waited for before usedAnywhere(), if anything; once.
  std::optional<Future> takeSum() { return std::exchange(sum_, std::nullopt); }
  bool usedAnywhere(std::size_t param) const;
  /// By how many ranks, as they told last.
  std::vector<std::int32_t> counts() const;

  /// Nothing is used; what was told before is kept.
  void clear();

 private:
  std::vector<std::int32_t> here_;
  Tensor everywhere_;  // int32, by parameter
  std::optional<Future> sum_;
};

}  // namespace unisono::ddp
