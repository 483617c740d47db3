// Binding: which cores of its host each rank of a node may use, as torchrun's --numa-binding has
// it.
//
// torchrun gives a rank the cores that are near its GPU. Here ranks are spread over the host's
// memory nodes in order, and each has the cores that are near its node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::launch {

enum class Binding : std::uint8_t {
  NONE,
  NODE,          // all cores of the memory node
  SOCKET,        // all cores of the node's package
  EXCLUSIVE,     // cores of the node that no other rank has
  CORE_COMPLEX,  // cores of the node that share a cache
};

/// A logical core, and what it belongs to: each by a number that others of it have, too.
struct Core {
  int number = 0;
  int node = 0;
  int package = 0;
  int cache = 0;     // the last level
  int physical = 0;  // hyperthreads are of one
};

/// The mode of that name; nothing if there is none.
std::optional<Binding> bindingNamed(std::string_view name);

/// The cores that this process may use. What the kernel does not tell counts as one: one node, one
/// package, a cache for all.
std::vector<Core> coresOfHost(const std::string& root = "/sys/devices/system/cpu");

/// How many memory nodes they are of; at least 1.
int nodeCount(const std::vector<Core>& cores);

/// The numbers of those that local rank `localRank` of `workers` may use; empty for NONE. Throws
/// UsageError when there are too few for EXCLUSIVE.
std::vector<int> coresFor(Binding binding, const std::vector<Core>& cores, int localRank,
                          int workers);

}  // namespace unisono::launch
