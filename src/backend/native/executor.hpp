// Executor: runs one operation of a group between the ranks of a host.
//
// It turns tensors into blocks of bytes, takes the algorithm that fits, and brings results back.
//
// Thread safety: one thread at a time, the one that drives the group's lane.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/work/collective_args.hpp"

#include "backend/native/staging.hpp"
#include "collective/selection.hpp"
#include "transport/shm/arena.hpp"

namespace unisono {

class Executor {
 public:
  Executor(shm::Arena& arena, const Selector& selector);

  /// Runs `args`, which are valid; `timeout` is the operation's. Throws DistBackendError or
  /// DistTimeoutError. What has a result in memory of its own leaves it in `args.outputs`.
  void run(CollectiveArgs& args, Milliseconds timeout);

  /// How many operations had what this rank gives in registered memory. From any thread.
  std::uint64_t registeredUses() const noexcept {
    return registeredUses_.load(std::memory_order_relaxed);
  }

  /// What a rank's post says, for messages: "all_reduce(float32[1000], SUM)".
  static std::string describe(const shm::Post& post);

 private:
  friend struct Dispatch;  // calls the method of an operation
  /// What a rank gives in an operation.
  struct Given {
    ConstBlock block = {};  // what others may read where it is, if they can reach it there
    bool gives = true;
    bool pulled = false;         // others read it in the memory of this process
    std::uint8_t algorithm = 0;  // where there are several
  };
  void begin(const CollectiveArgs& args, const Given& given);
  /// Whether this rank's blocks, of `bytes` at most, are read in its memory. Asked by all ranks,
  /// also those who give nothing: that is how they learn whether they can.
  bool pulls(Movement movement, std::size_t bytes) noexcept;
  void allreduce(const CollectiveArgs& args);
  void allreduceOne(const CollectiveArgs& args, const Tensor& tensor);
  void allreduceStaged(const CollectiveArgs& args, const Tensor& tensor);
  void allreduceMany(const CollectiveArgs& args);
  void allreduceSparse(CollectiveArgs& args);
  void gatherBlocks(const CollectiveArgs& what, ConstBlock mine, std::byte* all,
                    std::span<const std::size_t> sizes);
  void reduce(const CollectiveArgs& args);
  /// Whether blocks of `bytes` of each of `givers` go by lines.
  bool byLines(std::size_t bytes, std::size_t givers) const noexcept;
  std::size_t mostDealt() const noexcept;
  void runReduction(const CollectiveArgs& args, const AllreduceData& data,
                    const Reduction& reduction);
  void broadcast(const CollectiveArgs& args);
  void gather(const CollectiveArgs& args);
  void scatter(const CollectiveArgs& args);
  void allgather(const CollectiveArgs& args);
  void allgatherSingle(const CollectiveArgs& args, const Tensor& output, const Tensor& input);
  void reduceScatter(const CollectiveArgs& args);
  void reduceScatterSingle(const CollectiveArgs& args, const Tensor& output, const Tensor& input);
  /// `given`: all of `give`, if they lie one after the other.
  void reduceBlocks(const CollectiveArgs& args, std::span<const ConstBlock> give,
                    const Tensor& output, ConstBlock given = {});
  void alltoall(const CollectiveArgs& args);
  void alltoallSingle(const CollectiveArgs& args);
  void barrier(const CollectiveArgs& args);

  /// How elements of `type` are reduced over all ranks.
  const Reduction& reductionOf(DType type, ReduceOp op);
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(arena_.size()); }
  bool isRoot(const CollectiveArgs& args) const noexcept { return args.root == arena_.rank(); }

  shm::Arena& arena_;
  const Selector& selector_;
  const std::vector<int> everybody_;
  // By rank, filled anew in each operation: a call that allocates takes much longer.
  std::vector<ConstBlock> give_;
  std::vector<Block> take_;
  // The last one: most operations reduce as the one before.
  DType reducedType_ = DType::FLOAT32;
  RedOpType reducedBy_ = RedOpType::SUM;
  Reduction reduction_;
  Milliseconds timeout_{};
  Scratch scratch_;
  std::atomic<std::uint64_t> registeredUses_{0};
};

}  // namespace unisono
