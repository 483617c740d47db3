// Places of a queue: whether elements fit into them, given what is known of their order.
#pragma once

#include <cstdint>
#include <vector>

namespace unisono::linear {

/// An element that is to have one of the places from `first` to `last`. One whose push ended before
/// the push of another began, or whose pop did, has a place in front of it; so has one that the
/// same client pushed before (`turn`; unless `client` is negative).
struct Placed {
  int first;
  int last;
  std::int64_t pushStart;
  std::int64_t pushEnd;
  std::int64_t popStart;
  std::int64_t popEnd;
  int client;
  std::int64_t turn;
};

/// Whether each can have a place of its own among those from `from` up to `to`, as many as they
/// are.
bool canPlaceAll(std::vector<Placed> elements, int from, int to);

}  // namespace unisono::linear
