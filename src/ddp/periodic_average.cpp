#include "unisono/ddp/periodic_average.hpp"

#include <exception>
#include <utility>

#include "base/check.hpp"
#include "ddp/average.hpp"

namespace unisono::hooks {

PeriodicAverage::PeriodicAverage(Group group, PeriodicAverageOptions options)
    : group_(std::move(group)), options_(options) {
  UNISONO_CHECK(options.period >= 1, "period is ", options.period,
                ", but the shortest one is 1: after every step");
  UNISONO_CHECK(options.warmupSteps >= 0, "warmupSteps is ", options.warmupSteps,
                ", but cannot be less than 0");
}

bool PeriodicAverage::step(const std::vector<Tensor>& params) {
  const std::int64_t since = steps_++ - options_.warmupSteps;
  if (since < 0 || since % options_.period != 0) {
    return false;
  }
  std::vector<Future> averages;
  std::exception_ptr failed;
  const auto attempt = [&failed](const auto& part) {
    try {
      part();
    } catch (...) {  // kept until nothing writes to the parameters any more
      failed = failed ? failed : std::current_exception();
    }
  };
  attempt([&] {
    for (const Tensor& param : params) {
      averages.push_back(ddp::startAverage(group_, param));
    }
  });
  for (const Future& average : averages) {
    attempt([&] { average.wait(); });
  }
  if (failed) {
    std::rethrow_exception(failed);
  }
  return true;
}

}  // namespace unisono::hooks
