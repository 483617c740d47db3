// Chores: operations of every kind and size, whose results are known.
#pragma once

#include <cstdint>
#include <functional>

#include "unisono/group/group.hpp"

namespace unisono::fault {

/// One operation: which, how large, and whether it is started in the background.
struct Chore {
  enum class Kind : std::uint8_t {
    ALL_REDUCE,
    BROADCAST,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    REDUCE,
    GATHER,
    SCATTER,
    EXCHANGE,  // everybody sends to the next rank and receives from the one before
    BARRIER,
  };
  static constexpr int kKinds = 10;

  Kind kind = Kind::ALL_REDUCE;
  std::size_t count = 1;  // elements of four bytes that a rank gives to each other one, or to all
  bool async = false;
  int root = 0;
  bool registered = false;  // its tensors lie in memory that the other ranks reach

  /// Any of them; `choice` is the same on all ranks. Sizes are 4 B, 64 KiB and, where `large`,
  /// 16 MiB.
  static Chore any(std::uint64_t choice, int ranks, bool large);
};

/// Carries it out; whether the result was right and nothing beside it was touched. `calling` is
/// called right before the operation. When it throws, `wrong` is set if something beside the
/// outputs was touched.
bool carryOut(Group& group, const Chore& chore, const std::function<void()>& calling,
              const std::function<void()>& wrong);

}  // namespace unisono::fault
