// What is bound of a training in the same way, whether it is a DataParallel or a Reducer.
#pragma once

#include <cstdint>
#include <memory>
#include <nanobind/stl/vector.h>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/array.hpp"
#include "bindings/convert.hpp"
#include "bindings/group_handle.hpp"
#include "bindings/python_hook.hpp"
#include "bindings/training.hpp"

namespace unisono::python {

inline std::vector<Param> toParams(nb::sequence arrays, nb::sequence names) {
  std::vector<Param> params;
  for (const nb::handle array : arrays) {
    params.push_back({.value = toTensor(array, Access::WRITE)});
  }
  std::size_t at = 0;
  for (const nb::handle name : names) {
    params.at(at++).name = Text(TextArg{name}, "the name of a parameter").string();
  }
  return params;
}

inline std::size_t toSize(nb::handle number, const char* name) {
  return static_cast<std::size_t>(toWhole(number, name, 0, INT64_MAX));
}

inline std::size_t toIndex(nb::handle number) {
  return toSize(number, "the number of a parameter");
}

inline void setSparse(DataParallel& model, std::size_t param, SparseTensor gradient) {
  model.setSparseGrad(param, std::move(gradient));
}
inline void setSparse(HostedReducer& held, std::size_t param, SparseTensor gradient) {
  held.gradients.setSparse(param, std::move(gradient));
}
inline SparseTensor sparseOf(DataParallel& model, std::size_t param) {
  return model.sparseGrad(param);
}
inline SparseTensor sparseOf(HostedReducer& held, std::size_t param) {
  return held.gradients.sparseGrad(param);
}

/// `reducerOf` finds the Reducer behind what is bound.
template <typename Handle, typename ReducerOf>
void bindSparse(nb::class_<Handle>& type, ReducerOf reducerOf) {
  type.def(
          "set_sparse_grad",
          [reducerOf](const Handle& self, nb::handle index, nb::handle indices, nb::handle values) {
            const std::size_t param = toIndex(index);
            SparseTensor grad;
            if (!indices.is_none()) {
              grad = {toTensor(indices, Access::READ), toTensor(values, Access::READ), {}};
            }
            self.use([&](auto& held) {
              const std::span<const Param> params = reducerOf(held).params();
              grad.sizes = param < params.size() ? params[param].value.sizes() : Dims();
              setSparse(held, param, std::move(grad));
            });
          },
          nb::arg("index"), nb::arg("indices").none(), nb::arg("values").none(),
          nb::sig("def set_sparse_grad(self, index: int, indices: object | None, "
                  "values: object | None) -> None"),
          "From now on a gradient has these values in these places; with None there is none.")
      .def(
          "sparse_grad",
          [](const Handle& self, nb::handle index) -> nb::object {
            const std::size_t param = toIndex(index);
            const SparseTensor grad = self.use([&](auto& held) { return sparseOf(held, param); });
            if (!grad.values.defined()) {
              return nb::none();
            }
            return nb::make_tuple(toArray(grad.indices), toArray(grad.values));
          },
          nb::arg("index"),
          nb::sig("def sparse_grad(self, index: int) -> tuple[typing.Any, typing.Any] | None"),
          "Its places and values; None when there is none.");
}

/// The same.
template <typename Handle, typename ReducerOf>
void bindSteps(nb::class_<Handle>& type, ReducerOf reducerOf) {
  type.def(
          "register_hook",
          [reducerOf](const Handle& self, nb::handle hook) {
            const auto made = std::make_shared<PythonHook>(hook);
            self.use([&](auto& held) { reducerOf(held).registerCommHook(made); });
          },
          nb::arg("hook"),
          nb::sig("def register_hook(self, hook: collections.abc.Callable[[GradBucket, "
                  "HookAnswer], object]) -> None"),
          "Lets `hook`, which the caller keeps, reduce buckets.")
      .def(
          "register_builtin_hook",
          [reducerOf](const Handle& self, BuiltinCommHookType hook) {
            self.use([&](auto& held) { reducerOf(held).registerBuiltinCommHook(hook); });
          },
          nb::arg("hook"), "The same, with one that comes with unisono.")
      .def(
          "mark_ready",
          [reducerOf](const Handle& self, nb::handle index) {
            const std::size_t param = toIndex(index);
            self.use([&](auto& held) { reducerOf(held).markReady(param); });
          },
          nb::arg("index"), nb::sig("def mark_ready(self, index: int) -> None"),
          "A gradient is complete.")
      .def(
          "finish",
          [reducerOf](const Handle& self) {
            self.use([&](auto& held) { reducerOf(held).finish(); });
          },
          "Ends the step: all gradients are averages.")
      .def(
          "buckets",
          [reducerOf](const Handle& self) {
            return self.use([&](auto& held) { return reducerOf(held).buckets(); });
          },
          "Which parameters are reduced together, in their order.")
      .def(
          "reset_state",
          [reducerOf](const Handle& self, const GroupHandle* group) {
            const auto by = group == nullptr ? std::nullopt : std::optional(group->get());
            self.use([&](auto& held) { reducerOf(held).resetState(by); });
          },
          nb::arg("group").none(), "Forgets the step that is open, and goes on with `group`.")
      .def(
          "leave", [](Handle& self) { self.leave(); }, "Lets go of the group.");
  bindSparse(type, reducerOf);
}

}  // namespace unisono::python
