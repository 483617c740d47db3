#include "ddp/step_errors.hpp"

#include <utility>

#include "base/str.hpp"
#include "group/global_ranks.hpp"

namespace unisono::ddp {
namespace {

/// An error of this rank, which is the one to blame.
ErrorFacts factsAt(const StepPlace& place, std::string what, std::string hint,
                   Reason reason = Reason::USAGE) {
  const ProcessGroup& group = place.group.processGroup();
  return {.reason = reason,
          .what = std::move(what),
          .hint = std::move(hint),
          .group = group.defaultBackend()->options().groupName,
          .rank = group.rank(),
          .world = group.size(),
          .culprits = globalRanks(group, {group.rank()})};
}

/// "conv.bias, fc.weight; Parameter indices which did not receive grad for rank 1: 3 4".
std::string listed(const StepPlace& place, const Missing& missing) {
  std::vector<std::string> names;
  std::vector<std::string> numbers;
  for (const std::size_t param : missing.params) {
    const std::string& name = place.params[param].name;
    names.push_back(name.empty() ? str("parameter ", param) : name);
    numbers.push_back(str(param));
  }
  const int rank = place.group.rank();
  return str(missing.params.size(), " of ", place.params.size(),
             " parameters did not receive grad for rank ", rank, ": ", join(names, ", "),
             ". Parameter indices which did not receive grad for rank ", rank, ": ",
             join(numbers, " "));
}

std::string remedy(const Missing& missing) {
  if (missing.isStatic) {
    return "with a static graph, mark the same parameters in every step";
  }
  return str(missing.findsUnused
                 ? "Since `find_unused_parameters=True` is enabled, say which parameters are "
                   "unused, or let finish() take those that are missing for unused ones"
                 : "mark every parameter in every step, also one that has no gradient, or find "
                   "unused ones by passing the keyword argument `find_unused_parameters=True` "
                   "(ReducerOptions::findUnusedParameters)",
             "; where a framework marks them, all `forward` function outputs participate in "
             "calculating loss");
}

}  // namespace

UsageError markedTwice(const StepPlace& place, std::size_t param, bool saidUnused) {
  const std::string& name = place.params[param].name;
  return UsageError(factsAt(
      place,
      str("Expected to mark a variable ready only once. Parameter at index ", param,
          name.empty() ? "" : " with name ", name, " has been marked as ready twice",
          saidUnused ? ": beginBackward() was told that it is unused" : " in this step"),
      "mark a parameter when its gradient is complete; where it is used several times, after the "
      "last time, or set staticGraph"));
}

UsageError loggerSetTwice(const StepPlace& place) {
  return UsageError(factsAt(place,
                            str("a Logger can be set only once, and the Reducer of ",
                                place.params.size(), " parameters, the first of which is ",
                                describe(place.params[0], 0), ", was given one before"),
                            "keep the Logger that was set, or make a new Reducer"));
}

UsageError graphChanged(const StepPlace& place, std::size_t param) {
  return UsageError(factsAt(
      place,
      str("Your training graph has changed in this iteration: ",
          describe(place.params[param], param), " was marked more often than in the first step"),
      "do not set staticGraph where steps differ"));
}

UsageError unfinished(const StepPlace& place, const Missing& missing) {
  const std::string later =
      missing.bucket + 1 == missing.buckets
          ? str("bucket ", missing.bucket, ", the last, waits")
          : str("buckets ", missing.bucket, " to ", missing.buckets - 1, " wait");
  return UsageError(factsAt(
      place, str("the step cannot be finished: ", listed(place, missing), "; ", later, " for them"),
      remedy(missing)));
}

UsageError unfinishedBefore(const StepPlace& place, const Missing& missing) {
  const std::string changed =
      missing.isStatic ? " This error indicates that your training graph has changed in this "
                         "iteration, e.g., one parameter is used in first iteration, but then got "
                         "unused in the second iteration. this is not compatible with static_graph "
                         "set to True."
                       : "";
  return UsageError(
      factsAt(place,
              str("Expected to have finished reduction in the prior iteration before "
                  "starting a new one.",
                  changed, " ",
                  missing.params.empty() ? "finish() was not called" : listed(place, missing)),
              missing.params.empty() ? "end every step by finish()" : remedy(missing)));
}

std::exception_ptr hookError(const StepPlace& place, std::size_t bucket, std::exception_ptr error) {
  std::string text = "something that is no std::exception";
  try {
    std::rethrow_exception(error);
  } catch (const DistError&) {
    return error;
  } catch (const std::exception& thrown) {
    text = thrown.what();
  } catch (...) {  // a hook is the user's: it may throw anything
  }
  return std::make_exception_ptr(
      UsageError(factsAt(place, str("the communication hook threw for bucket ", bucket, ": ", text),
                         "a hook that cannot reduce a bucket ends the step on all ranks; see what "
                         "it threw")));
}

UsageError wrongResult(const StepPlace& place, std::size_t bucket, const Tensor& buffer,
                       const std::string& result) {
  return UsageError(
      factsAt(place,
              str("the communication hook gave ", result, " for bucket ", bucket, ", which is ",
                  buffer.describe()),
              "return one tensor of as many elements, of the same type and in a row"));
}

DistTimeoutError hookTooLate(const StepPlace& place, std::size_t bucket,
                             std::chrono::milliseconds waited) {
  return DistTimeoutError(factsAt(
      place,
      str("the communication hook has not completed bucket ", bucket, " within ",
          formatDuration(waited)),
      "complete the future that the hook returned, also when something fails", Reason::TIMEOUT));
}

}  // namespace unisono::ddp
