// The comparison of collectives: every library, again and again, in turns.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective/contest.hpp"

namespace unisono::bench {

struct CollectivePlan {
  std::vector<std::string> ops = {"all_reduce"};
  std::vector<std::uint64_t> sizes = {4,          64,         1U << 10U,   4U << 10U,
                                      16U << 10U, 64U << 10U, 256U << 10U, 1U << 20U,
                                      4U << 20U,  16U << 20U, 64U << 20U};
  int ranks = 2;
  std::size_t rounds = 5;
  Element element = Element::FLOAT32;
  bool inARow = false;  // not each with data that was just written, but one after the other
  Reduction reduction = Reduction::SUM;
  int root = 0;  // of those operations that have one
  bool isChecked = true;
  bool hasReferences = true;     // they need ranks that are on one host
  std::uint64_t warmUps = 6;     // operations before it is measured, at least one
  std::uint64_t operations = 0;  // of a round; 0: so many that they take long enough
};

/// The figures of one library for one operation and size: medians over the rounds.
struct CollectiveRow {
  std::string peer;  // or what the machine can do without any: copy, rmw, flight
  bool isReference = false;
  std::string op;
  std::uint64_t size = 0;
  double p10 = 0;  // microseconds
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
  double algorithmGBs = 0;  // size over time
  double busGBs = 0;        // what goes over the slowest link, by the usual formula
  std::uint64_t wrong = 0;  // elements, in all rounds and of all ranks
  double spread = 0;        // by how much a reference took longer in one round than in another
  bool isNoisy = false;     // that was more than 15 %
  int tries = 1;            // 2: it was more than 40 %, and of two measurements the calmer is kept
  /// Time of this one over that of the first, of the same round: median, least, most.
  std::optional<double> ratio = std::nullopt;
  double ratioLeast = 0;
  double ratioMost = 0;
};

/// The name of an operation on the command line; nothing for another text.
std::optional<Op> opCalled(const std::string& name);
/// All of them, with commas.
std::string opNames();

using Tell = std::function<void(const std::string& op, std::uint64_t size)>;

/// Measures in interleaved rounds, in an order that rotates; the first contestant is what the
/// others are compared with. `tell` is called before each operation and size. Of each first come
/// the references, which its ranks do in every round: copying as many bytes and changing them in
/// place, all ranks at once; where those are few, a word from one core to another. Libraries that
/// have no such elements are left out.
std::vector<CollectiveRow> compareCollectives(Field& field, const CollectivePlan& plan,
                                              const Tell& tell);

}  // namespace unisono::bench
