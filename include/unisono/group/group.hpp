// Group: ranks that work together, in few words.
//
//   unisono::Group world = unisono::init();          // who this is says the launcher
//   std::vector<float> gradients = …;
//   world.allReduce(gradients, {.op = unisono::ReduceOp::AVG});
//
// Values are anything contiguous (vector, array, span) of a type that tensors may have, or Tensors.
// A call returns when it is done, and throws when it failed; with `.async = true` it returns at
// once, and its Work is waited for later; values stay where they are until it has ended, also when
// another call has failed meanwhile. Every rank makes the same calls in the same order.
//
// A Group is a handle: copies mean the same group, which goes with its last one.
//
// Thread safety: as ProcessGroup.
#pragma once

#include <chrono>
#include <concepts>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/group/process_group.hpp"
#include "unisono/reduction/reduce_op.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono {

/// What can be said of a call; each looks at what concerns it.
struct CallOptions {
  ReduceOp op = ReduceOp::SUM;
  int root = 0;
  int tag = 0;  // of messages
  bool async = false;
  std::chrono::milliseconds timeout = kUnsetTimeout;
  /// allToAll: how many rows go to, and come from, each rank; empty: equal shares. Read before the
  /// call returns.
  std::span<const std::int64_t> inputSplits = {};
  std::span<const std::int64_t> outputSplits = {};
};

/// What can be said of a group that is made out of another.
struct NewGroupOptions {
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;  // else as the other's
  std::string backend = {};  // see backend_config.hpp; empty: as the other's
  std::string desc = {};
  bool sortRanks = true;  // else the order of the list is the order of the new ranks
};

namespace detail {
template <typename T>
concept Values = std::ranges::contiguous_range<T> && std::ranges::sized_range<T>;
/// One tensor for each rank, instead of values.
template <typename T>
concept Tensors = std::same_as<std::remove_cvref_t<T>, std::vector<Tensor>>;

/// A view of `values`. Operations do not write to their inputs, so const is cast away here only.
template <Values T>
Tensor viewOf(T& values) {
  using Element = std::ranges::range_value_t<T>;
  auto* data = const_cast<Element*>(std::ranges::data(values));
  return Tensor(std::span<Element>(data, std::ranges::size(values)));
}
inline const Tensor& viewOf(const Tensor& tensor) noexcept {
  return tensor;
}
}  // namespace detail

class UNISONO_API Group {
 public:
  explicit Group(std::shared_ptr<ProcessGroup> group);

  int rank() const noexcept;
  int size() const noexcept;
  std::string name() const;

  /// Everybody gets the reduction of all, in place.
  template <typename T>
  WorkPtr allReduce(T&& values, const CallOptions& options = {}) {
    return run(OpType::ALLREDUCE, {}, detail::viewOf(values), options);
  }
  /// The root gets it; the others' values stay as they are.
  template <typename T>
  WorkPtr reduce(T&& values, const CallOptions& options = {}) {
    return run(OpType::REDUCE, {}, detail::viewOf(values), options);
  }
  /// Everybody gets the root's values.
  template <typename T>
  WorkPtr broadcast(T&& values, const CallOptions& options = {}) {
    return run(OpType::BROADCAST, {}, detail::viewOf(values), options);
  }
  /// Everybody gets the values of all, by rank; `all` has size() times as many elements.
  template <typename In, typename Out>
  requires(!detail::Tensors<Out>) WorkPtr
      allGather(const In& mine, Out&& all, const CallOptions& options = {}) {
    return run(OpType::ALLGATHER_BASE, detail::viewOf(mine), detail::viewOf(all), options);
  }
  /// The same into one tensor for each rank, as large as what that rank gives.
  template <typename In>
  WorkPtr allGather(const In& mine, const std::vector<Tensor>& all,
                    const CallOptions& options = {}) {
    return run(OpType::ALLGATHER, detail::viewOf(mine), all, options);
  }
  /// Rank r gets part r of the reduction; `all` has size() times as many elements as `part`.
  template <typename In, typename Out>
  requires(!detail::Tensors<In>) WorkPtr
      reduceScatter(const In& all, Out&& part, const CallOptions& options = {}) {
    return run(OpType::REDUCE_SCATTER_BASE, detail::viewOf(all), detail::viewOf(part), options);
  }
  /// Rank r gets the reduction of everybody's tensor r, of which each may have its own size.
  template <typename Out>
  WorkPtr reduceScatter(const std::vector<Tensor>& all, Out&& part,
                        const CallOptions& options = {}) {
    return run(OpType::REDUCE_SCATTER, all, detail::viewOf(part), options);
  }
  /// Rank r gets part r of everybody's `give`, by rank.
  template <typename In, typename Out>
  requires(!detail::Tensors<In>) WorkPtr
      allToAll(const In& give, Out&& take, const CallOptions& options = {}) {
    return run(OpType::ALLTOALL_BASE, detail::viewOf(give), detail::viewOf(take), options);
  }
  /// Rank r gets tensor r of everybody's list, into a list by rank; sizes may differ.
  WorkPtr allToAll(const std::vector<Tensor>& give, const std::vector<Tensor>& take,
                   const CallOptions& options = {}) {
    return run(OpType::ALLTOALL, give, take, options);
  }
  /// The root gets the values of all, into one tensor for each rank; the others give an empty list.
  template <typename In>
  WorkPtr gather(const In& mine, const std::vector<Tensor>& all, const CallOptions& options = {}) {
    return run(OpType::GATHER, detail::viewOf(mine), all, options);
  }
  /// Rank r gets tensor r of the root's list; the others give an empty one.
  template <typename Out>
  WorkPtr scatter(const std::vector<Tensor>& all, Out&& mine, const CallOptions& options = {}) {
    return run(OpType::SCATTER, all, detail::viewOf(mine), options);
  }
  /// To rank `to`, which receives as many with the same tag; done when `values` may change again.
  template <typename T>
  WorkPtr send(const T& values, int to, const CallOptions& options = {}) {
    return run(OpType::SEND, detail::viewOf(values), {}, options, to);
  }
  /// From rank `from`, or from whoever sends first: Work::sourceRank() tells who it was.
  template <typename T>
  WorkPtr recv(T&& values, std::optional<int> from, const CallOptions& options = {}) {
    return run(from ? OpType::RECV : OpType::RECVANYSOURCE, {}, detail::viewOf(values), options,
               from.value_or(-1));
  }
  /// Returns when everybody has called it.
  WorkPtr barrier(const CallOptions& options = {});
  /// The same, and rank 0's error says who has not come: the first such rank, or all of them. Of
  /// the options only the timeout counts.
  void monitoredBarrier(const CallOptions& options = {}, bool waitAllRanks = false);

  /// `count` zeros in memory that the other ranks reach where it is: operations on them copy
  /// nothing in between. All of it counts, whether by this tensor or by spans of it. It goes with
  /// the last copy of the tensor, also after the group. Throws DistError (RESOURCE, LIMIT).
  Tensor allocate(std::int64_t count, DType type = DType::FLOAT32);

  /// A group of those who give the same `color`, in the order of their ranks here; every rank calls
  /// it, with the same `name`. None for who gives nothing. Where there is a name, errors and logs
  /// call the group by it and its color, as in "world/rows/1".
  std::optional<Group> split(std::optional<int> color, std::string_view name = {});

  /// A group of `ranks`, which are ranks of this one. Every rank calls it, those outside too, with
  /// the same list; they get none. Throws on all ranks alike, and leaves this group usable:
  /// DistBackendError (MISMATCH) naming the ranks whose call differs; UsageError for a list that is
  /// empty, names a rank twice, or one that there is not.
  std::optional<Group> newGroup(const std::vector<int>& ranks, const NewGroupOptions& options = {});

  /// Several groups at once, none of which shares a rank with another: each rank gets the one it
  /// is in, or none. Otherwise as newGroup().
  std::optional<Group> splitGroup(const std::vector<std::vector<int>>& lists,
                                  const NewGroupOptions& options = {});

  /// Everything else that a group can do.
  ProcessGroup& processGroup() const noexcept { return *group_; }
  /// The same, to be kept: what registerGroup() takes.
  const std::shared_ptr<ProcessGroup>& sharedProcessGroup() const noexcept { return group_; }

 private:
  /// The call that `args` begins and `options` completes.
  WorkPtr run(OpType type, TensorList&& inputs, TensorList&& outputs, const CallOptions& options,
              int peer = -1);

  std::shared_ptr<ProcessGroup> group_;
};

/// How to meet. What is not given comes from the launcher, by the environment: rank and size from
/// UNISONO_RANK and UNISONO_SIZE, else from what torchrun, Open MPI, PMI or Slurm set; without any
/// this is a world of one.
struct InitOptions {
  /// Where the ranks meet, unless there is a store. env:// is at UNISONO_STORE, else at
  /// MASTER_ADDR and MASTER_PORT, or without them, where a launcher has started all ranks on one
  /// host, in a folder of the user's.
  std::string url = "env://";
  std::shared_ptr<Store> store = {};       // with it, rank and size are needed too
  std::optional<int> rank = std::nullopt;  // else from the URL or the launcher
  std::optional<int> size = std::nullopt;  // else from the URL or the launcher
  std::string backend = "unisono";         // see backend_config.hpp
  std::string name = "world";
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;  // of meeting and operations
};

/// Meets the other ranks. Throws DistError saying who has not come, or what does not fit.
UNISONO_API Group init(const InitOptions& options = {});

/// Ends a group in order; for one that init() gave, first all groups that were made out of it, the
/// last made first. Waits for operations under way, but no longer than the group's timeout: then
/// they fail, and DistTimeoutError is thrown when all is closed. Registered names are free again;
/// later operations are refused. UsageError (SHUTDOWN) when it has been destroyed already. Every
/// rank calls it for itself.
UNISONO_API void destroyProcessGroup(const Group& group);

}  // namespace unisono
