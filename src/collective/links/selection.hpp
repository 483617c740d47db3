// Which algorithm does a collective between ranks that share nothing but messages.
//
// Chosen only from what all ranks share: the operation, its bytes, the number of ranks. The table
// is data: see selection.cpp. One can be forced by name, the same on all ranks: see tuning.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collective/links/algorithms.hpp"
#include "collective/thresholds.hpp"
#include "collective/tuning.hpp"

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
  /// Takes an algorithm for so many bytes of its operation; the first that fits counts. False when
  /// there is none of that name.
  bool force(const TunedLinks& setting);

  /// `bytes` are those of the data, or of the blocks of all ranks together.
  const Algorithm<AllreduceFn>& allreduce(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<ReduceFn>& reduce(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<BroadcastFn>& broadcast(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<AllgatherFn>& allgather(std::size_t bytes, int ranks) const noexcept;
  const Algorithm<ReduceScatterFn>& reduceScatter(std::size_t bytes, int ranks) const noexcept;
  /// `bytes`: all that this rank gives. Ranks may take different ones.
  const Algorithm<AlltoallFn>& alltoall(std::size_t bytes, int ranks) const noexcept;

  /// What is taken when, unless it is forced; of several lines of an operation the first that fits.
  static std::vector<ThresholdLine> describe();

  /// Every algorithm among which there is a choice.
  static std::span<const AlgorithmName> names() noexcept;

 private:
  template <typename Fn>
  struct Forced {
    const Algorithm<Fn>* algorithm;
    ByteRange bytes;
  };
  template <typename Fn, std::size_t kCount>
  static bool add(std::vector<Forced<Fn>>& list, std::string_view operation,
                  const Algorithm<Fn> (&table)[kCount], const TunedLinks& setting);

  std::vector<Forced<AllreduceFn>> allreduce_;
  std::vector<Forced<ReduceFn>> reduce_;
  std::vector<Forced<BroadcastFn>> broadcast_;
  std::vector<Forced<AllgatherFn>> allgather_;
  std::vector<Forced<ReduceScatterFn>> reduceScatter_;
  std::vector<Forced<AlltoallFn>> alltoall_;
};

}  // namespace unisono::links
