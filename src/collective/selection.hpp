// Selection: which algorithm does an all-reduce (or a reduce).
//
// Chosen only from what all ranks share: bytes, number of ranks, whether the group is crowded.
// The ranges are data, and differ between processors: see selection.cpp. UNISONO_ALGO overrides
// them; it must be the same on all ranks, which is checked when a group forms.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collective/allreduce/algorithms.hpp"

namespace unisono {

using AllreduceFn = void (*)(shm::Arena&, const AllreduceData&, const Reduction&);

/// What an algorithm is asked about.
struct Situation {
  std::size_t bytes;
  std::size_t elementSize;
  int ranks;
  bool crowded;
};

struct AllreduceAlgorithm {
  std::string_view name;
  std::string_view summary;
  bool (*applies)(const Situation&);
  AllreduceFn run;
};

/// Whether a few bytes of each of `givers` ranks travel best by lines (shareLines()).
bool linesAreBest(const Situation& situation, std::size_t givers) noexcept;

/// Every algorithm, one row each.
std::span<const AllreduceAlgorithm> allreduceAlgorithms() noexcept;

class Selector {
 public:
  /// Reads UNISONO_ALGO. Throws UsageError (CONFIG) when it names no algorithm.
  Selector();

  const AllreduceAlgorithm& allreduce(const Situation& situation) const;

  /// What the members of a group must have alike.
  const std::string& settings() const noexcept { return settings_; }

 private:
  std::string settings_;
  const AllreduceAlgorithm* forced_ = nullptr;
};

}  // namespace unisono
