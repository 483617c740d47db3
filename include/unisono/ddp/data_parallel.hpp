// DataParallel: every rank computes gradients of its share of the data, and all train one model.
//
//   unisono::DataParallel model(world, {{Tensor(weights), "weights"}, {Tensor(bias), "bias"}});
//   for (…) {
//     model.begin();
//     computeBias(model.grad<float>(1));       // of this rank's data
//     model.ready(1);                          // from here on it is averaged, while
//     computeWeights(model.grad<float>(0));    // the next is computed
//     model.ready(0);
//     model.finish();                          // the same gradients on all ranks
//     … weights -= rate * model.grad<float>(0) …
//   }
//
// All ranks begin with the parameters of rank 0, and make the same steps with the same averages, so
// they keep the same parameters. For more (hooks, hosts with gradients of their own), see Reducer.
//
// Thread safety: as Reducer, where ready() is markReady().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/ddp/logger.hpp"
#include "unisono/ddp/reducer.hpp"

namespace unisono {

struct DataParallelOptions {
  /// As in ReducerOptions.
  std::size_t bucketBytesCap = kDefaultBucketBytesCap;
  std::size_t firstBucketBytesCap = kDefaultFirstBucketBytes;
  std::vector<std::size_t> bucketBytesCapList = {};
  bool staticGraph = false;
  /// Parameters that are not ready at finish() were not used: what no rank used keeps its gradient.
  bool findUnusedParameters = false;
  /// Gradients are where they are reduced, and nothing is copied; they move once, when buckets are
  /// rebuilt. Otherwise each has a place of its own for ever.
  bool gradientAsBucketView = true;
  /// All ranks begin with the values of rank 0.
  bool broadcastParameters = true;
  /// By parameter, whether its gradients are sparse, as those of a table of which a step reads few
  /// rows; empty for none. They are given by setSparseGrad(), in every step.
  std::vector<bool> expectSparseGradients = {};
  /// What the model is called in logs.
  std::string moduleName = {};
};

class UNISONO_API DataParallel {
 public:
  /// On all ranks; the parameters stay where they are. Throws as verifyParams(), which compares
  /// those of all ranks, and as Reducer.
  DataParallel(const Group& group, std::vector<Param> params,
               const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Opens a step. With `sync` false gradients only add up on this rank.
  void begin(bool sync = true);

  /// Where gradient `index` is written, and read after finish(): as large as its parameter, 0 at
  /// first. Until the next begin(). UsageError where gradients are sparse.
  Tensor grad(std::size_t index) const;
  /// The same, in a row; UsageError unless the parameter has elements of this type.
  template <typename T>
  std::span<T> grad(std::size_t index) const {
    const Tensor tensor = gradOf(index, kDType<T>);
    return {tensor.dataAs<T>(), static_cast<std::size_t>(tensor.numel())};
  }
  /// Gradient `index`, of a parameter whose gradients are sparse: what this rank has, before
  /// ready(); after finish() the average of every place that any rank has, each once and in order.
  /// At first it has no entries. It must not change in between. UsageError where gradients are not
  /// sparse.
  void setSparseGrad(std::size_t index, SparseTensor gradient);
  SparseTensor sparseGrad(std::size_t index) const;
  /// All gradients become 0.
  void zeroGrad();

  /// Gradient `index` is complete for this step.
  void ready(std::size_t index);
  /// All gradients are averages over all ranks.
  void finish();

  std::size_t size() const noexcept { return params_.size(); }
  Reducer& reducer() noexcept { return *reducer_; }
  /// It notes steps from begin() on: computing forward is part of computing gradients there.
  Logger& logger() noexcept { return *logger_; }

 private:
  Tensor gradOf(std::size_t index, DType type) const;
  bool isSparse(std::size_t index) const;
  void requireSparse(std::size_t index, bool isExpected) const;

  const std::vector<Param> params_;
  const std::vector<bool> sparse_;
  const std::unique_ptr<GradBuffers> gradients_;
  std::unique_ptr<Reducer> reducer_;  // it uses what is above
  std::shared_ptr<Logger> logger_;    // last: it uses the reducer
};

}  // namespace unisono
