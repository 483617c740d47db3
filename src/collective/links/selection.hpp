// Which algorithm does a collective between ranks that share nothing but messages.
//
// Chosen only from what all ranks share: the operation, its bytes, the number of ranks. The table
// is data: see selection.cpp. One can be forced by name, "allreduce=ring", the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collective/links/algorithms.hpp"

namespace unisono::links {

using AllreduceFn = void (*)(Communicator&, Block, const Stepwise&);
using ReduceFn = void (*)(Communicator&, ConstBlock in, Block out, int root, const Stepwise&);
using BroadcastFn = void (*)(Communicator&, Block, int root);
using AllgatherFn = void (*)(Communicator&, ConstBlock, std::span<const Block>);
using ReduceScatterFn = void (*)(Communicator&, std::span<const ConstBlock>, Block,
                                 const Stepwise&);
using AlltoallFn = void (*)(Communicator&, std::span<const ConstBlock>, std::span<const Block>);

template <typename Fn>
struct Algorithm {
  std::uint8_t number;  // by which ranks tell each other what they take; none has another's
  std::string_view name;
  std::string_view summary;
  Fn run;
};

/// What one can be told by, in lists for people.
struct AlgorithmName {
  std::string_view operation;
  std::string_view name;
  std::string_view summary;
};

class LinkSelector {
 public:
  /// `forced`: settings with commas between; empty for none. Throws UsageError (CONFIG) when one
  /// names no algorithm.
  explicit LinkSelector(std::string_view forced = {});

  /// Takes the algorithm of one setting wherever its operation is called for; false when it names
  /// none.
  bool force(std::string_view setting) noexcept;

  /// `bytes` are those of the data, or of the blocks of all ranks together.
  const Algorithm<AllreduceFn>& allreduce(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<ReduceFn>& reduce(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<BroadcastFn>& broadcast(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<AllgatherFn>& allgather(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<ReduceScatterFn>& reduceScatter(std::size_t bytes, int ranks) const noexcept;
  /// `bytes`: all that this rank gives. Ranks may take different ones.
  const Algorithm<AlltoallFn>& alltoall(std::size_t bytes, int ranks) const noexcept;

  /// Every algorithm among which there is a choice.
  static std::span<const AlgorithmName> names() noexcept;

 private:
  const Algorithm<AllreduceFn>* allreduce_ = nullptr;
  const Algorithm<ReduceFn>* reduce_ = nullptr;
  const Algorithm<BroadcastFn>* broadcast_ = nullptr;
  const Algorithm<AllgatherFn>* allgather_ = nullptr;
  const Algorithm<ReduceScatterFn>* reduceScatter_ = nullptr;
  const Algorithm<AlltoallFn>* alltoall_ = nullptr;
};

}  // namespace unisono::links
