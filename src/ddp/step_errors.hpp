// What goes wrong in a step, as sentences that name parameters. Parts of them are c10d's, which
// programs look for.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/ddp/params.hpp"
#include "unisono/group/group.hpp"

namespace unisono::ddp {

/// Where it went wrong.
struct StepPlace {
  const Group& group;
  std::span<const Param> params;
};

UsageError markedTwice(const StepPlace& place, std::size_t param, bool saidUnused);
UsageError loggerSetTwice(const StepPlace& place);
UsageError graphChanged(const StepPlace& place, std::size_t param);

/// Parameters that were not marked, and what follows from it.
struct Missing {
  std::vector<std::size_t> params;
  std::size_t bucket;  // the first that waits for one of them
  std::size_t buckets;
  bool findsUnused;
  bool isStatic;
};
/// finish() was called.
UsageError unfinished(const StepPlace& place, const Missing& missing);
/// The next step began.
UsageError unfinishedBefore(const StepPlace& place, const Missing& missing);

/// `error`, or if it is none of unisono's, one that says which hook call threw it.
std::exception_ptr hookError(const StepPlace& place, std::size_t bucket, std::exception_ptr error);
UsageError wrongResult(const StepPlace& place, std::size_t bucket, const Tensor& buffer,
                       const std::string& result);
DistTimeoutError hookTooLate(const StepPlace& place, std::size_t bucket,
                             std::chrono::milliseconds waited);

}  // namespace unisono::ddp
