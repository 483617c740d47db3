// LinkExecutor: runs one operation of a group between ranks that share nothing but messages.
//
// The twin of Executor, which does it in shared memory.
//
// Thread safety: one thread at a time, the one that drives the group's lane.
#pragma once

#include <span>
#include <vector>

#include "unisono/work/collective_args.hpp"

#include "backend/native/staging.hpp"
#include "collective/links/selection.hpp"
#include "life/abort_record.hpp"
#include "transport/communicator.hpp"

namespace unisono {

class LinkExecutor {
 public:
  /// `globalRanks`: what the ranks of the group are in the world, for errors.
  LinkExecutor(Communicator& comm, const links::LinkSelector& selector,
               std::vector<int> globalRanks);

  /// Runs `args`, which are valid; `timeout` is the operation's. Throws DistBackendError or
  /// DistTimeoutError. What has a result in memory of its own leaves it in `args.outputs`.
  void run(CollectiveArgs& args, Milliseconds timeout);

 private:
  friend struct Dispatch;  // calls the method of an operation
  /// Runs `body` as an operation of its own; when it throws, the group has ended.
  template <typename Body>
  void operate(const CollectiveArgs& args, std::uint8_t algorithm, Body body);
  void begin(const CollectiveArgs& args, std::uint8_t algorithm);
  [[noreturn]] void throwNoMemory(const CollectiveArgs& args);

  void broadcast(const CollectiveArgs& args);
  void allreduce(const CollectiveArgs& args);
  void allreduceMany(const CollectiveArgs& args);
  void allreduceData(const CollectiveArgs& args, Block data, DType type);
  void allreduceSparse(CollectiveArgs& args);
  [[noreturn]] void refuse(const AbortCause& fault);
  void reduce(const CollectiveArgs& args);
  void allgather(const CollectiveArgs& args);
  void allgatherSingle(const CollectiveArgs& args, const Tensor& output, const Tensor& input);
  void gatherBlocks(const CollectiveArgs& args, ConstBlock mine, std::span<const Block> take);
  void gather(const CollectiveArgs& args);
  void scatter(const CollectiveArgs& args);
  void reduceScatter(const CollectiveArgs& args);
  void reduceScatterSingle(const CollectiveArgs& args, const Tensor& output, const Tensor& input);
  void reduceBlocks(const CollectiveArgs& args, std::span<const ConstBlock> give,
                    const Tensor& output);
  void alltoall(const CollectiveArgs& args);
  void alltoallSingle(const CollectiveArgs& args);
  void dealBlocks(const CollectiveArgs& args, std::span<const ConstBlock> give,
                  std::span<const Block> take);
  void barrier(const CollectiveArgs& args);

  std::size_t ranks() const noexcept { return static_cast<std::size_t>(comm_.size()); }
  bool isRoot(const CollectiveArgs& args) const noexcept { return args.root == comm_.rank(); }

  Communicator& comm_;
  const links::LinkSelector& selector_;
  const std::vector<int> globalRanks_;
  Milliseconds timeout_{};
  bool hasEnded_ = false;  // the group, by the operation that runs
  Scratch scratch_;
};

}  // namespace unisono
