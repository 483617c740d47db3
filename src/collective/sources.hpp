// Sources: where the same part of every rank's contribution is, in the order of the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "transport/shm/layout.hpp"

namespace unisono {

/// Not initialised: only as many are used as there are ranks.
class Sources {
 public:
  explicit Sources(int ranks) noexcept : count_(static_cast<std::size_t>(ranks)) {}

  void set(int rank, const std::byte* where) noexcept {
    where_[static_cast<std::size_t>(rank)] = where;
  }
  std::span<const std::byte* const> span() const noexcept { return {where_.data(), count_}; }

 private:
  std::size_t count_;
  std::array<const std::byte*, shm::kMostRanks> where_;
};

}  // namespace unisono
