#include "unisono/ddp/logger.hpp"

#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include "unisono/base/debug_level.hpp"
#include "unisono/ddp/reducer.hpp"

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/str.hpp"
#include "ddp/usage_log.hpp"

namespace unisono {
namespace {

/// After so many steps that were noted, they are reported.
constexpr std::array kReportedSteps = {10, 20, 50, 100, 500, 800, 1000};

/// The part of a step between two events, and the fields that say how long it took.
struct Interval {
  const char* field;
  const char* averageField;
  StepEvent from;
  StepEvent to;
};
constexpr std::array kIntervals = {
    Interval{"forward_compute_time", "avg_forward_compute_time", StepEvent::FORWARD_START,
             StepEvent::BACKWARD_COMPUTE_START},
    Interval{"backward_compute_time", "avg_backward_compute_time",
             StepEvent::BACKWARD_COMPUTE_START, StepEvent::BACKWARD_COMPUTE_END},
    Interval{"backward_comm_time", "avg_backward_comm_time", StepEvent::BACKWARD_COMM_START,
             StepEvent::BACKWARD_COMM_END},
    Interval{"backward_compute_comm_overlap_time", "avg_backward_compute_comm_overlap_time",
             StepEvent::BACKWARD_COMM_START, StepEvent::BACKWARD_COMPUTE_END}};

struct Moment {
  const char* field;
  StepEvent event;
};
constexpr std::array kMoments = {
    Moment{"forward_compute_time_start", StepEvent::FORWARD_START},
    Moment{"backward_compute_time_start", StepEvent::BACKWARD_COMPUTE_START},
    Moment{"backward_comm_time_start", StepEvent::BACKWARD_COMM_START},
    Moment{"backward_compute_time_end", StepEvent::BACKWARD_COMPUTE_END},
    Moment{"backward_comm_time_end", StepEvent::BACKWARD_COMM_END}};
constexpr std::int64_t kNoMoment = -1;

struct Variable {
  const char* field;
  const char* name;
};
constexpr std::array kVariables = {Variable{"master_addr", "MASTER_ADDR"},
                                   Variable{"master_port", "MASTER_PORT"},
                                   Variable{"torch_distributed_debug", "TORCH_DISTRIBUTED_DEBUG"},
                                   Variable{"cuda_visible_devices", "CUDA_VISIBLE_DEVICES"}};

template <typename Items>
std::string joined(const Items& items, std::string_view separator) {
  std::vector<std::string> texts;
  for (const auto& item : items) {
    texts.push_back(str(item));
  }
  return join(texts, separator, texts.size());
}

std::string sizesOf(const BucketIndices& buckets, std::span<const Param> params) {
  std::vector<std::size_t> sizes;
  for (const std::vector<std::size_t>& bucket : buckets) {
    std::size_t bytes = 0;
    for (const std::size_t index : bucket) {
      bytes += params[index].value.bytes();
    }
    sizes.push_back(bytes);
  }
  return joined(sizes, ", ");
}

std::string indicesOf(const BucketIndices& buckets) {
  std::vector<std::string> texts;
  for (const std::vector<std::size_t>& bucket : buckets) {
    texts.push_back(joined(bucket, " "));
  }
  return join(texts, ", ", texts.size());
}

/// As who reads these logs knows them; types that C has no word for have ours.
std::string_view loggedName(DType type) noexcept {
  return type == DType::FLOAT32 ? "float" : type == DType::FLOAT64 ? "double" : name(type);
}

void describeParams(DDPLoggingData& data, std::span<const Param> params) {
  std::set<std::string_view> types;
  std::set<int> devices;
  std::size_t bytes = 0;
  for (const Param& param : params) {
    types.insert(loggedName(param.value.dtype()));
    devices.insert(param.value.device().index);
    bytes += param.value.bytes();
  }
  data.strsMap["dtypes"] = joined(types, ", ");
  data.intsMap["is_multi_device_module"] = devices.size() > 1 ? 1 : 0;
  data.intsMap["num_parameter_tensors"] = static_cast<std::int64_t>(params.size());
  data.intsMap["total_parameter_size_bytes"] = static_cast<std::int64_t>(bytes);
}

void describeEnvironment(DDPLoggingData& data) {
  for (const Variable& variable : kVariables) {
    const char* value = std::getenv(variable.name);
    data.strsMap[variable.field] = value == nullptr ? "N/A" : value;
  }
}

}  // namespace

class Logger::Impl {
 public:
  explicit Impl(Reducer& reducer) : reducer_(reducer) {}

  void setConstructionData(const ConstructionData& given) UNISONO_EXCLUDES(mutex_);
  void setRuntimeStats() UNISONO_EXCLUDES(mutex_);
  void setError(std::string_view error) UNISONO_EXCLUDES(mutex_);
  void setGraphStatic(bool canBeStatic) UNISONO_EXCLUDES(mutex_);
  template <typename Change>
  void change(const Change& what) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    what(data_);
  }
  DDPLoggingData data() const UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return data_;
  }

 private:
  void noteBuckets(const ReducerStats& stats) UNISONO_REQUIRES(mutex_);
  void noteTimes(const StepTimer& timer) UNISONO_REQUIRES(mutex_);

  Reducer& reducer_;  // never asked under the lock: it calls this object, under none of its own

  mutable Mutex mutex_;
  DDPLoggingData data_ UNISONO_GUARDED_BY(mutex_);
  std::int64_t notedSteps_ UNISONO_GUARDED_BY(mutex_) = 0;
  bool notedRebuilt_ UNISONO_GUARDED_BY(mutex_) = false;
  bool saidGraphStatic_ UNISONO_GUARDED_BY(mutex_) = false;
};

void Logger::Impl::setConstructionData(const ConstructionData& given) {
  const Group& group = reducer_.group();
  const ReducerOptions& options = reducer_.options();
  const std::string sizes = sizesOf(reducer_.buckets(), reducer_.params());
  change([&](DDPLoggingData& data) {
    describeParams(data, reducer_.params());
    describeEnvironment(data);
    data.strsMap["module_name"] = given.moduleName;
    data.strsMap["bucket_sizes"] = sizes;
    data.strsMap["device_ids"] = joined(given.deviceIds, ", ");
    data.strsMap["backend_name"] = str(group.processGroup().defaultBackend()->name());
    data.intsMap["world_size"] = group.size();
    data.intsMap["rank"] = group.rank();
    data.intsMap["iteration"] = 0;
    data.intsMap["output_device"] = given.outputDevice;
    data.intsMap["broadcast_buffers"] = given.broadcastBuffers ? 1 : 0;
    data.intsMap["has_sync_bn"] = given.hasSyncBn ? 1 : 0;
    data.intsMap["bucket_cap_bytes"] = static_cast<std::int64_t>(options.bucketBytesCap);
    data.intsMap["find_unused_parameters"] = options.findUnusedParameters ? 1 : 0;
    data.intsMap["gradient_as_bucket_view"] = options.gradientAsBucketView ? 1 : 0;
    if (given.staticGraph || options.staticGraph) {
      data.intsMap["static_graph"] = 1;
    }
  });
  if (debugLevel() != DebugLevel::OFF) {
    UNISONO_LOG(INFO, "ddp", "data-parallel training begins: ", describe(data()));
  }
  ddp::reportUsage(data());
}

void Logger::Impl::setRuntimeStats() {
  if (!reducer_.isSampled()) {
    return;
  }
  const ReducerStats stats = reducer_.stats();
  bool isReported = false;
  DDPLoggingData noted;
  {
    const MutexLock lock(mutex_);
    ++notedSteps_;
    data_.intsMap["iteration"] = stats.iterations;
    noteBuckets(stats);
    noteTimes(stats.timer);
    for (const int steps : kReportedSteps) {
      isReported = isReported || notedSteps_ == steps;
    }
    noted = data_;
  }
  if (debugLevel() == DebugLevel::DETAIL) {
    UNISONO_LOG(INFO, "ddp", "data-parallel training goes on: ", describe(noted));
  }
  if (isReported) {
    ddp::reportUsage(noted);
  }
}

void Logger::Impl::noteBuckets(const ReducerStats& stats) {
  data_.intsMap["num_buckets_reduced"] = static_cast<std::int64_t>(stats.bucketsReduced);
  data_.intsMap["unused_parameter_size"] = static_cast<std::int64_t>(stats.unusedBytes);
  data_.intsMap["has_rebuilt_buckets"] = stats.hasRebuiltBuckets ? 1 : 0;
  if (stats.hasRebuiltBuckets != std::exchange(notedRebuilt_, stats.hasRebuiltBuckets)) {
    data_.strsMap["rebuilt_bucket_sizes"] = sizesOf(stats.buckets, reducer_.params());
    data_.strsMap["rebuilt_per_bucket_param_indices"] = indicesOf(stats.buckets);
  }
  data_.strsMap["prev_iteration_grad_ready_order_indices"] = joined(stats.gradReadyOrder, ", ");
}

void Logger::Impl::noteTimes(const StepTimer& timer) {
  for (const Interval& interval : kIntervals) {
    std::int64_t& last = data_.intsMap[interval.field];
    std::int64_t& average = data_.intsMap[interval.averageField];
    last = 0;
    if (const std::optional<std::int64_t> took = timer.difference(interval.from, interval.to)) {
      last = *took;
      average = (*took + average * (notedSteps_ - 1)) / notedSteps_;
    }
  }
  for (const Moment& moment : kMoments) {
    data_.intsMap[moment.field] = timer.timestamp(moment.event).value_or(kNoMoment);
  }
}

void Logger::Impl::setError(std::string_view error) {
  const std::int64_t iterations = reducer_.stats().iterations;
  change([&](DDPLoggingData& data) {
    data.intsMap["has_error"] = 1;
    data.strsMap["error"] = error;
    data.intsMap["iteration"] = iterations;
  });
  ddp::reportUsage(data());
}

void Logger::Impl::setGraphStatic(bool canBeStatic) {
  const std::int64_t iterations = reducer_.stats().iterations;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(saidGraphStatic_, true)) {
      return;
    }
    data_.intsMap["can_set_static_graph"] = canBeStatic ? 1 : 0;
    data_.intsMap["iteration"] = iterations;
  }
  ddp::reportUsage(data());
}

Logger::Logger(Reducer& reducer) : impl_(std::make_unique<Impl>(reducer)) {}

Logger::~Logger() {
  impl_->setGraphStatic(true);
}

void Logger::setConstructionDataAndLog(const ConstructionData& data) {
  impl_->setConstructionData(data);
}

void Logger::setRuntimeStatsAndLog() {
  impl_->setRuntimeStats();
}

void Logger::setErrorAndLog(std::string_view error) {
  impl_->setError(error);
}

void Logger::setCommHook(std::string_view name) {
  impl_->change([&](DDPLoggingData& data) { data.strsMap["comm_hook"] = name; });
}

void Logger::setUnevenInputJoin() {
  impl_->change([](DDPLoggingData& data) { data.intsMap["join_uneven_inputs"] = 1; });
}

void Logger::setStaticGraph() {
  impl_->change([](DDPLoggingData& data) { data.intsMap["static_graph"] = 1; });
}

void Logger::logIfGraphStatic(bool canBeStatic) {
  impl_->setGraphStatic(canBeStatic);
}

DDPLoggingData Logger::loggingData() const {
  return impl_->data();
}

}  // namespace unisono
