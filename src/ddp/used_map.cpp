#include "ddp/used_map.hpp"

#include <algorithm>
#include <span>

#include "ddp/memory.hpp"

namespace unisono::ddp {

UsedMap::UsedMap(std::size_t params)
    : here_(params), everywhere_(ordinaryMemory(static_cast<std::int64_t>(params), DType::INT32)) {}

const Tensor& UsedMap::tell() {
  std::copy(here_.begin(), here_.end(), everywhere_.dataAs<std::int32_t>());
  return everywhere_;
}

bool UsedMap::usedAnywhere(std::size_t param) const {
  return usedHere(param) || everywhere_.dataAs<const std::int32_t>()[param] != 0;
}

std::vector<std::int32_t> UsedMap::counts() const {
  const std::span<const std::int32_t> all(everywhere_.dataAs<const std::int32_t>(), here_.size());
  return {all.begin(), all.end()};
}

void UsedMap::clear() {
  std::fill(here_.begin(), here_.end(), 0);
}

}  // namespace unisono::ddp
