// Selection: which algorithm does an all-reduce (or a reduce), and how blocks are moved.
//
// Chosen only from what all ranks share: bytes, number of ranks, whether the group is crowded.
// The ranges are data, and differ between processors: see thresholds.hpp. UNISONO_ALGO overrides
// them (tuning.hpp); it must be the same on all ranks, which is checked when a group forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collective/allreduce/algorithms.hpp"
#include "collective/links/selection.hpp"
#include "collective/thresholds.hpp"

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
  std::uint8_t number;  // by which ranks tell each other what they take
  std::string_view name;
  std::string_view summary;
  bool (*applies)(const Situation&);
  AllreduceFn run;
};

/// Whether a few bytes of each of `givers` ranks travel best by lines (shareLines()).
bool linesAreBest(const Situation& situation, std::size_t givers) noexcept;
/// Blocks of how many bytes travel best by lines where each rank gives one to each (dealBlocks());
/// 0: none.
std::size_t mostDealtByLines(int ranks, bool crowded) noexcept;
/// The same for blocks that are reduced on the way (reduceScatterLines()): of `bytes` bytes each.
bool reduceScatterByLines(const Situation& situation) noexcept;

/// Every algorithm, one row each.
std::span<const AllreduceAlgorithm> allreduceAlgorithms() noexcept;

class Selector {
 public:
  /// Reads UNISONO_ALGO. Throws UsageError (CONFIG) when it names no algorithm; also one of those
  /// that are not for this group, so that a mistake shows wherever the program runs.
  Selector();

  const AllreduceAlgorithm& allreduce(const Situation& situation) const;

  /// Whether blocks of `bytes` are best read from the memory of who gives them, where that can be.
  /// Every giver chooses for itself: its announcement tells the others.
  bool pulls(Movement movement, std::size_t bytes, int ranks) const noexcept;

  /// What is chosen where ranks reach each other by messages only.
  const links::LinkSelector& links() const noexcept { return links_; }

  /// What the members of a group must have alike.
  const std::string& settings() const noexcept { return settings_; }

 private:
  struct Forced {
    const AllreduceAlgorithm* algorithm;
    ByteRange bytes;
  };
  struct Blocks {
    bool pull;  // or by slots
    ByteRange bytes;
  };

  [[noreturn]] void refuse() const;

  std::string settings_;
  // What UNISONO_ALGO says; the first that fits counts.
  std::vector<Forced> forced_;
  std::vector<Blocks> blocks_;
  links::LinkSelector links_;
};

}  // namespace unisono
