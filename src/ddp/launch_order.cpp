#include "ddp/launch_order.hpp"

#include <utility>

#include "base/check.hpp"

namespace unisono::ddp {

LaunchOrder::LaunchOrder(std::vector<std::size_t> bucketOf, std::size_t buckets)
    : bucketOf_(std::move(bucketOf)), sizes_(buckets) {
  for (const std::size_t bucket : bucketOf_) {
    ++sizes_.at(bucket);
  }
  open();
}

void LaunchOrder::open() {
  pending_ = sizes_;
  arrived_.assign(bucketOf_.size(), false);
  next_ = 0;
  launching_ = false;
  stopped_ = false;
}

bool LaunchOrder::arrive(std::size_t param) {
  if (arrived_.at(param)) {
    return false;
  }
  arrived_[param] = true;
  return true;
}

void LaunchOrder::place(std::size_t param) {
  UNISONO_DCHECK(arrived_[param] && pending_[bucketOf_[param]] > 0);
  --pending_[bucketOf_[param]];
}

std::optional<std::size_t> LaunchOrder::claim() {
  if (launching_ || stopped_ || allLaunched() || pending_[next_] > 0) {
    return std::nullopt;
  }
  launching_ = true;
  return next_;
}

void LaunchOrder::launched() {
  UNISONO_DCHECK(launching_);
  launching_ = false;
  ++next_;
}

std::vector<std::size_t> LaunchOrder::missing() const {
  std::vector<std::size_t> params;
  for (std::size_t param = 0; param < arrived_.size(); ++param) {
    if (!arrived_[param]) {
      params.push_back(param);
    }
  }
  return params;
}

}  // namespace unisono::ddp
