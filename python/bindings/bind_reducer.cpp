// The Reducer of unisono/distributed/_reducer.py.
#include <cstdint>
#include <memory>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <utility>
#include <vector>

#include "bindings/array.hpp"
#include "bindings/bind.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/group_handle.hpp"
#include "bindings/steps.hpp"
#include "bindings/training.hpp"

namespace unisono::python {
namespace {

BucketIndices toBuckets(nb::sequence lists) {
  BucketIndices buckets;
  for (const nb::handle list : lists) {
    buckets.push_back(toSizes(list, "an index of bucket_indices"));
  }
  return buckets;
}

constexpr const char* kReducerSignature =
    "def __init__(self, group: Group, params: collections.abc.Sequence[object], "
    "names: collections.abc.Sequence[str], "
    "buckets: collections.abc.Sequence[collections.abc.Sequence[int]], bucket_bytes_cap: int, "
    "first_bucket_bytes_cap: int, bucket_bytes_cap_list: collections.abc.Sequence[int], "
    "expect_sparse: collections.abc.Sequence[bool], find_unused_parameters: bool, "
    "gradient_as_bucket_view: bool, skip_all_reduce_unused_params: bool, static_graph: bool) -> "
    "None";

void bindReducerSteps(nb::class_<Reducing>& type) {
  type.def(
          "set_grad",
          [](const Reducing& self, nb::handle index, nb::handle array) {
            const std::size_t param = toIndex(index);
            Tensor grad = array.is_none() ? Tensor() : toTensor(array, Access::WRITE);
            self.use([&](HostedReducer& held) { held.gradients.set(param, std::move(grad)); });
          },
          nb::arg("index"), nb::arg("array").none(),
          nb::sig("def set_grad(self, index: int, array: object | None) -> None"),
          "From now on a gradient is `array`.")
      .def(
          "grad",
          [](const Reducing& self, nb::handle index) {
            const std::size_t param = toIndex(index);
            const Tensor grad =
                self.use([&](HostedReducer& held) { return held.gradients.grad(param); });
            return grad.defined() ? toArray(grad) : nb::object(nb::none());
          },
          nb::arg("index"), nb::sig("def grad(self, index: int) -> typing.Any | None"),
          "Where a gradient is now.")
      .def(
          "begin_backward",
          [](const Reducing& self, nb::sequence unused, bool sync) {
            const std::vector<std::size_t> named = toSizes(unused, "a parameter that is unused");
            self.use([&](HostedReducer& held) { held.reducer.beginBackward(named, sync); });
          },
          nb::arg("unused"), nb::arg("sync"),
          nb::sig("def begin_backward(self, unused: collections.abc.Sequence[int], "
                  "sync: bool) -> None"),
          "Opens a step; without `sync` one that is not reduced.")
      .def(
          "rebuild_buckets",
          [](const Reducing& self) {
            return self.use([](HostedReducer& held) { return held.reducer.rebuildBuckets(); });
          },
          "Orders buckets by how gradients came; whether it did.")
      .def(
          "check_finalized",
          [](const Reducing& self) {
            self.use([](HostedReducer& held) { held.reducer.checkFinalized(); });
          },
          "Raises when a step was begun, but not finished.")
      .def(
          "zero_buckets",
          [](const Reducing& self) {
            return self.use([](HostedReducer& held) { return held.reducer.zeroBuckets(); });
          },
          "Buckets as a hook gets them, but of zeros.")
      .def(
          "used_map",
          [](const Reducing& self) {
            return self.use([](HostedReducer& held) { return held.reducer.usedMap(); });
          },
          "By how many ranks each parameter was used in the last step.");
}

/// What is counted and timed.
void bindReducerNotes(nb::class_<Reducing>& type) {
  type.def(
          "prepare_for_forward",
          [](const Reducing& self) {
            self.use([](HostedReducer& held) { held.reducer.prepareForForward(); });
          },
          "A step begins, and is counted.")
      .def(
          "set_sample_rate",
          [](const Reducing& self, nb::handle rate) {
            const auto every = static_cast<int>(toWhole(rate, "sample_rate", INT32_MIN, INT32_MAX));
            self.use([&](HostedReducer& held) { held.reducer.setRuntimeLoggingSampleRate(every); });
          },
          nb::arg("rate"), nb::sig("def set_sample_rate(self, rate: int) -> None"),
          "After the first ten, one step in so many is timed.")
      .def(
          "backward_stats",
          [](const Reducing& self) {
            return self.use([](HostedReducer& held) { return held.reducer.backwardStats(); });
          },
          "Nanoseconds from the beginning of the backward pass until each gradient came.")
      .def(
          "is_graph_static",
          [](const Reducing& self) {
            return self.use([](HostedReducer& held) { return held.reducer.isGraphStatic(); });
          },
          "Whether the same parameters were unused in all steps.");
}

}  // namespace

void bindReducer(nb::module_& module) {
  nb::class_<Reducing> type(module, "Reducer", "Makes gradients averages, bucket by bucket.");
  type.def(
      "__init__",
      [](Reducing* self, const GroupHandle& group, nb::sequence arrays, nb::sequence names,
         nb::sequence buckets, nb::handle cap, nb::handle firstCap, nb::sequence caps,
         std::vector<bool> expectSparse, bool findUnused, bool asView, bool skipsUnused,
         bool isStatic) {
        ReducerOptions options{.bucketBytesCap = toSize(cap, "bucket_bytes_cap"),
                               .firstBucketBytesCap = toSize(firstCap, "first_bucket_bytes_cap"),
                               .bucketBytesCapList = toSizes(caps, "bucket_bytes_cap_list"),
                               .findUnusedParameters = findUnused,
                               .skipAllReduceUnusedParams = skipsUnused,
                               .gradientAsBucketView = asView,
                               .staticGraph = isStatic,
                               .expectSparseGradients = std::move(expectSparse)};
        const std::vector<Param> params = toParams(arrays, names);
        BucketIndices assigned = toBuckets(buckets);
        const Group by = group.get();
        new (self) Reducing(withoutLock([&] {
          return std::make_shared<HostedReducer>(by, params, std::move(assigned),
                                                 std::move(options));
        }));
      },
      nb::arg("group"), nb::arg("params"), nb::arg("names"), nb::arg("buckets"),
      nb::arg("bucket_bytes_cap"), nb::arg("first_bucket_bytes_cap"),
      nb::arg("bucket_bytes_cap_list"), nb::arg("expect_sparse"), nb::arg("find_unused_parameters"),
      nb::arg("gradient_as_bucket_view"), nb::arg("skip_all_reduce_unused_params"),
      nb::arg("static_graph"), nb::sig(kReducerSignature));
  bindReducerSteps(type);
  bindReducerNotes(type);
  bindSteps(type, [](HostedReducer& held) -> Reducer& { return held.reducer; });
}

}  // namespace unisono::python
