// Data-parallel training: unisono/_data_parallel.py and unisono/distributed/_reducer.py have the
// names and arguments that users know. The Reducer is in bind_reducer.cpp.
#include <cstdint>
#include <memory>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/ddp/broadcast_coalesced.hpp"
#include "unisono/ddp/data_parallel.hpp"

#include "bindings/array.hpp"
#include "bindings/bind.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/group_handle.hpp"
#include "bindings/python_hook.hpp"
#include "bindings/steps.hpp"
#include "bindings/training.hpp"

namespace unisono::python {
namespace {

void bindFunctions(nb::module_& module) {
  module.def(
      "compute_bucket_assignment_by_size",
      [](nb::sequence arrays, nb::sequence limits, const std::vector<bool>& expectSparse,
         nb::sequence indices) {
        const std::vector<std::size_t> most = toSizes(limits, "bucket_size");
        const std::vector<std::size_t> called = toSizes(indices, "tensor_indices");
        BucketAssignment made = computeBucketAssignmentBySize(toTensors(arrays, Access::READ), most,
                                                              expectSparse, called);
        return nb::make_tuple(std::move(made.buckets), std::move(made.limits));
      },
      nb::arg("arrays"), nb::arg("limits"), nb::arg("expect_sparse"), nb::arg("indices"),
      nb::sig("def compute_bucket_assignment_by_size(arrays: collections.abc.Sequence[object], "
              "limits: collections.abc.Sequence[int], expect_sparse: "
              "collections.abc.Sequence[bool], indices: collections.abc.Sequence[int]) -> "
              "tuple[list[list[int]], list[int]]"),
      "Which arrays travel together, and where each bucket was closed.");
  module.def(
      "broadcast_coalesced",
      [](const GroupHandle& group, nb::sequence arrays, nb::handle bytes, nb::handle root) {
        const std::vector<Tensor> tensors = toTensors(arrays, Access::WRITE);
        const std::size_t most = toSize(bytes, "buffer_size");
        const auto from = static_cast<int>(toWhole(root, "src", INT32_MIN, INT32_MAX));
        const Group by = group.get();
        withoutLock([&] { broadcastCoalesced(by, tensors, most, from); });
      },
      nb::arg("group"), nb::arg("arrays"), nb::arg("bytes"), nb::arg("root"),
      nb::sig("def broadcast_coalesced(group: Group, arrays: collections.abc.Sequence[object], "
              "bytes: int, root: int) -> None"),
      "The arrays of rank `root` become those of all, some `bytes` at a time.");
  module.def(
      "verify_params",
      [](const GroupHandle& group, nb::sequence arrays, nb::sequence names) {
        const std::vector<Param> params = toParams(arrays, names);
        const Group by = group.get();
        withoutLock([&] { verifyParams(by, params); });
      },
      nb::arg("group"), nb::arg("arrays"), nb::arg("names"),
      nb::sig("def verify_params(group: Group, arrays: collections.abc.Sequence[object], "
              "names: collections.abc.Sequence[str]) -> None"),
      "Returns when all ranks have the same parameters; raises on all otherwise.");
}

void bindHooks(nb::module_& module) {
  nb::enum_<BuiltinCommHookType>(module, "BuiltinCommHookType", "Hooks that come with unisono.")
      .value("ALLREDUCE", BuiltinCommHookType::ALLREDUCE, "The average, as without a hook.")
      .value("FP16_COMPRESS", BuiltinCommHookType::FP16_COMPRESS,
             "The average of the values as float16: half the bytes of float32.");
  nb::class_<GradBucket>(module, "GradBucket",
                         "Gradients that are reduced together, as a communication hook gets them.")
      .def("index", &GradBucket::index,
           "Its place in the order of reduction, which changes when buckets are rebuilt.")
      .def(
          "buffer", [](const GradBucket& self) { return toArray(self.buffer()); },
          nb::sig("def buffer(self) -> typing.Any"), "All gradients in one row: a view.")
      .def(
          "gradients", [](const GradBucket& self) { return toArrays(self.gradients()); },
          nb::sig("def gradients(self) -> list[typing.Any]"),
          "The gradients one by one: views of the row, with the shapes of their parameters.")
      .def(
          "parameters", [](const GradBucket& self) { return toArrays(self.parameters()); },
          nb::sig("def parameters(self) -> list[typing.Any]"),
          "Their parameters, in the same order.")
      .def("is_last", &GradBucket::isLast, "Whether it is the last bucket of the step.")
      .def(
          "set_buffer",
          [](GradBucket& self, nb::handle array) {
            self.setBuffer(toTensor(array, Access::WRITE));
          },
          nb::arg("buffer"), nb::sig("def set_buffer(self, buffer: object) -> None"),
          "Puts another row in its place, for hooks around other hooks.");
  nb::class_<HookAnswer>(module, "HookAnswer", "What a communication hook says to one bucket.")
      .def("give", &HookAnswer::give, nb::arg("array").none(),
           nb::sig("def give(self, array: object) -> None"),
           "What takes the place of the gradients.")
      .def("fail", &HookAnswer::fail, nb::arg("why"), "That there is nothing, and why.");
}

constexpr const char* kTrainingSignature =
    "def __init__(self, group: Group, params: collections.abc.Sequence[object], "
    "names: collections.abc.Sequence[str], bucket_bytes_cap: int, first_bucket_bytes_cap: int, "
    "bucket_bytes_cap_list: collections.abc.Sequence[int], static_graph: bool, "
    "find_unused_parameters: bool, gradient_as_bucket_view: bool, "
    "broadcast_parameters: bool, expect_sparse: collections.abc.Sequence[bool]) -> None";

void bindTraining(nb::module_& module) {
  nb::class_<Training> type(module, "DataParallel", "All ranks train one model.");
  type.def(
          "__init__",
          [](Training* self, const GroupHandle& group, nb::sequence arrays, nb::sequence names,
             nb::handle cap, nb::handle firstCap, nb::sequence caps, bool isStatic, bool findUnused,
             bool asView, bool broadcast, std::vector<bool> expectSparse) {
            const DataParallelOptions options{
                .bucketBytesCap = toSize(cap, "bucket_bytes_cap"),
                .firstBucketBytesCap = toSize(firstCap, "first_bucket_bytes_cap"),
                .bucketBytesCapList = toSizes(caps, "bucket_bytes_cap_list"),
                .staticGraph = isStatic,
                .findUnusedParameters = findUnused,
                .gradientAsBucketView = asView,
                .broadcastParameters = broadcast,
                .expectSparseGradients = std::move(expectSparse)};
            std::vector<Param> params = toParams(arrays, names);
            const Group by = group.get();
            new (self) Training(withoutLock(
                [&] { return std::make_shared<DataParallel>(by, std::move(params), options); }));
          },
          nb::arg("group"), nb::arg("params"), nb::arg("names"), nb::arg("bucket_bytes_cap"),
          nb::arg("first_bucket_bytes_cap"), nb::arg("bucket_bytes_cap_list"),
          nb::arg("static_graph"), nb::arg("find_unused_parameters"),
          nb::arg("gradient_as_bucket_view"), nb::arg("broadcast_parameters"),
          nb::arg("expect_sparse"), nb::sig(kTrainingSignature))
      .def(
          "begin",
          [](const Training& self, bool sync) {
            self.use([&](DataParallel& model) { model.begin(sync); });
          },
          nb::arg("sync"), "Opens a step.")
      .def(
          "grad",
          [](const Training& self, nb::handle index) {
            const std::size_t param = toIndex(index);
            return toArray(self.use([&](DataParallel& model) { return model.grad(param); }));
          },
          nb::arg("index"), nb::sig("def grad(self, index: int) -> typing.Any"),
          "Where a gradient is, until the next begin().")
      .def(
          "zero_grad",
          [](const Training& self) { self.use([](DataParallel& model) { model.zeroGrad(); }); },
          "All gradients become 0.")
      .def(
          "logging_data",
          [](const Training& self) {
            return asTuple(
                self.use([](DataParallel& model) { return model.logger().loggingData(); }));
          },
          nb::sig("def logging_data(self) -> tuple[dict[str, str], dict[str, int]]"),
          "All that is noted of the training: texts, and numbers.");
  bindSteps(type, [](DataParallel& model) -> Reducer& { return model.reducer(); });
}

void bindJoin(nb::module_& module) {
  nb::class_<Joining>(module, "Join", "Training on ranks of which some have more inputs.")
      .def(
          "__init__",
          [](Joining* self, const Training& model, bool byInitialSize, bool throwEarly) {
            const JoinOptions options{.divideByInitialWorldSize = byInitialSize,
                                      .throwOnEarlyTermination = throwEarly};
            new (self) Joining(std::make_shared<HostedJoin>(model.get(), options));
          },
          nb::arg("model"), nb::arg("divide_by_initial_world_size"),
          nb::arg("throw_on_early_termination"))
      .def(
          "begin",
          [](const Joining& self, bool sync) {
            self.use([&](HostedJoin& held) { held.join.begin(sync); });
          },
          nb::arg("sync"), "This rank has an input for one more step.")
      .def(
          "finish",
          [](const Joining& self) { self.use([](HostedJoin& held) { held.join.finish(); }); },
          "It has no more; returns when no rank has.")
      .def(
          "leave", [](Joining& self) { self.leave(); }, "Lets go of the group.");
}

}  // namespace

void bindDdp(nb::module_& module) {
  bindFunctions(module);
  bindHooks(module);
  bindTraining(module);
  bindJoin(module);
}

}  // namespace unisono::python
