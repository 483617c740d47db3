// LaunchOrder: which bucket is reduced next, in whatever order gradients come.
//
// Without locks, tensors and groups: it only counts. A parameter arrives when its gradient is said
// to be complete, and is placed when it is in its bucket. A bucket of which all parameters are
// placed is launched when all before it have been, by one thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace unisono::ddp {

class LaunchOrder {
 public:
  LaunchOrder() = default;
  /// `bucketOf[i]` is the bucket of parameter i; there are `buckets`.
  LaunchOrder(std::vector<std::size_t> bucketOf, std::size_t buckets);

  /// A new step: nobody has arrived.
  void open();
  /// Notes an arrival; false when it has arrived before.
  bool arrive(std::size_t param);
  bool hasArrived(std::size_t param) const { return arrived_[param]; }
  void place(std::size_t param);

  /// The next bucket, if it is full and nobody else is launching; then launched() must follow.
  std::optional<std::size_t> claim();
  void launched();
  /// Nothing is launched any more in this step.
  void stop() { stopped_ = true; }

  bool isLaunching() const { return launching_; }
  bool allLaunched() const { return next_ == pending_.size(); }
  /// The first bucket that has not been launched.
  std::size_t next() const { return next_; }
  std::vector<std::size_t> missing() const;

 private:
  std::vector<std::size_t> bucketOf_;
  std::vector<std::size_t> sizes_;    // of buckets, in parameters
  std::vector<std::size_t> pending_;  // parameters that are not placed, by bucket
  std::vector<bool> arrived_;
  std::size_t next_ = 0;
  bool launching_ = false;
  bool stopped_ = false;
};

}  // namespace unisono::ddp
