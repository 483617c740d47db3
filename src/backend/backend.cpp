#include "unisono/backend/backend.hpp"

#include "base/check.hpp"

namespace unisono {

Backend::Backend(const BackendParams& params, Capabilities capabilities)
    : rank_(params.rank),
      size_(params.size),
      capabilities_(capabilities),
      options_(params.options),
      timeout_(params.options.timeout.count()) {
  UNISONO_CHECK(size_ > 0, "a group cannot have ", size_, " ranks");
  UNISONO_CHECK(rank_ >= 0 && rank_ < size_, "Cannot init process group where rank (", rank_,
                ") >= world_size (", size_, ")");
}

Backend::~Backend() = default;

void Backend::refuse(std::string_view what) const {
  throw NotSupportedError({.reason = Reason::USAGE,
                           .what = str("Backend ", name(), " does not support ", what),
                           .hint = "use a backend that does, or build it of other operations",
                           .group = options_.groupName,
                           .rank = rank_,
                           .world = size_});
}

WorkPtr Backend::submitCoalesced(std::vector<CollectiveArgs> batch) {
  if (!capabilities_.coalescing) {
    throw NotSupportedError({.reason = Reason::USAGE,
                             .what = str("Backend ", name(), " does not implement startCoalescing"),
                             .group = options_.groupName});
  }
  for (const CollectiveArgs& args : batch) {
    check(args);
  }
  return startCoalesced(std::move(batch));
}

WorkPtr Backend::startCoalesced(std::vector<CollectiveArgs>) {
  refuse("endCoalescing");
}

void Backend::monitoredBarrier(const BarrierOptions&, bool) {
  refuse("monitoredBarrier");
}

std::shared_ptr<Backend> Backend::split(std::shared_ptr<Store>, const std::vector<int>&,
                                        const BackendOptions&) {
  throw NotSupportedError(
      {.reason = Reason::USAGE,
       .what = str("Backend ", name(), " is missing implementation of split.")});
}

void Backend::abort(std::exception_ptr) {}

void Backend::shutdown() {}

ErrorType Backend::error() const {
  return ErrorType::SUCCESS;
}

bool Backend::supportsTensorAlloc(Device) const {
  return false;
}

Tensor Backend::allocateTensor(std::int64_t, DType) {
  refuse("allocateTensor");
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  UNISONO_CHECK(timeout.count() >= 0, "a group cannot have the timeout ", timeout.count(), "ms");
  timeout_.store(timeout.count(), std::memory_order_relaxed);
}

}  // namespace unisono
