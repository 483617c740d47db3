// What groups are made of, and what can be seen of them: the parts of c10d's ProcessGroup and
// Backend that programs meet when they write their own.
#include <memory>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/backend/fake_backend.hpp"
#include "unisono/backend/process_group_wrapper.hpp"
#include "unisono/group/group.hpp"

#include "bindings/bind.hpp"
#include "bindings/completion_watch.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/group_handle.hpp"
#include "bindings/python_backend.hpp"
#include "bindings/python_failure.hpp"
#include "bindings/store_handle.hpp"
#include "bindings/work_handle.hpp"

namespace unisono::python {
namespace {

struct OpenWorkHandle : WorkHandle {
  OpenWorkHandle() : WorkHandle(std::make_shared<OpenWork>(), {}) {}

  void end(const std::exception_ptr& error) const {
    auto& open = static_cast<OpenWork&>(work());
    withoutLock([&] { open.end(error); });  // who waits may want the lock
  }
};

void bindOpenWork(nb::module_& module) {
  nb::class_<OpenWorkHandle, WorkHandle>(module, "OpenWork",
                                         "An operation that is ended from Python.")
      .def(nb::init<>())
      .def(
          "finish", [](const OpenWorkHandle& self) { self.end(nullptr); },
          "It has ended well, unless it has ended before.")
      .def(
          "fail",
          [](const OpenWorkHandle& self, nb::handle error) {
            if (PyExceptionInstance_Check(error.ptr()) == 0) {
              refuseType("error", "an exception", error);
            }
            self.end(std::make_exception_ptr(PythonFailure(error)));
          },
          nb::arg("error"), nb::sig("def fail(self, error: BaseException) -> None"),
          "It has failed with `error`, unless it has ended before.");
}

/// A group of one backend, for memory of the CPU.
std::unique_ptr<GroupHandle> groupOf(const std::shared_ptr<Backend>& backend, StorePtr store,
                                     const std::string& name) {
  const auto group =
      std::make_shared<ProcessGroup>(std::move(store), backend->rank(), backend->size(), name);
  group->setBackend(DeviceType::CPU, backend);
  return std::make_unique<GroupHandle>(Group(group));
}

BackendParams paramsOf(StorePtr store, int rank, int size, const std::string& name) {
  BackendParams params{.store = std::move(store), .rank = rank, .size = size};
  params.options.groupName = name;
  return params;
}

StorePtr optionalStore(nb::handle store) {
  return store.is_none() ? nullptr : sharedStore(store);
}

void bindMakingOfBackends(nb::module_& module) {
  module.def(
      "group_by",
      [](nb::handle core, nb::handle store, int rank, int size, const std::string& name,
         const std::string& backend, bool gathers) {
        const BackendParams params = paramsOf(optionalStore(store), rank, size, name);
        return groupOf(std::make_shared<PythonBackend>(params, backend, core, gathers),
                       params.store, name);
      },
      nb::arg("core"), nb::arg("store").none(), nb::arg("rank"), nb::arg("size"), nb::arg("name"),
      nb::arg("backend"), nb::arg("gathers"),
      nb::sig("def group_by(core: object, store: object, rank: int, size: int, name: str, "
              "backend: str, gathers: bool) -> Group"),
      "A group whose operations are what `core.submit()` does; whether it has all_gather_single.");
  module.def(
      "fake_group",
      [](int rank, int size, int fakeOption, bool errorOnCollective) {
        return groupOf(std::make_shared<FakeBackend>(
                           paramsOf(nullptr, rank, size, "fake"),
                           FakeBackendOptions{.fakeOption = fakeOption,
                                              .errorOnCollective = errorOnCollective}),
                       nullptr, "fake");
      },
      nb::arg("rank"), nb::arg("size"), nb::arg("fake_option"), nb::arg("error_on_collective"),
      "A group of a process that pretends to be one of many.");
  module.def(
      "checked_group",
      [](const GroupHandle& wrapped, nb::handle store) {
        const Group inner = wrapped.get();
        const auto backend = inner.processGroup().backend(DeviceType::CPU);
        const StorePtr where = optionalStore(store);
        return groupOf(std::make_shared<ProcessGroupWrapper>(backend, where), where, inner.name());
      },
      nb::arg("wrapped"), nb::arg("store").none(),
      nb::sig("def checked_group(wrapped: Group, store: object) -> Group"),
      "A group by the backend of another, whose ranks compare calls before they begin.");
}

/// Operations that are collected, until they are started together.
class Coalescing {
 public:
  explicit Coalescing(const Group& group) : scope_(group.processGroup().startCoalescing()) {}

  std::unique_ptr<WorkHandle> end() {
    WorkPtr work = withoutLock([&] { return scope_.end(); });
    return std::make_unique<WorkHandle>(std::move(work),
                                        std::vector<std::shared_ptr<const void>>());
  }

 private:
  CoalescingScope scope_;
};

void bindSights(nb::module_& module) {
  nb::class_<Coalescing>(module, "Coalescing", "Operations that are collected.")
      .def(
          "__init__",
          [](Coalescing* place, const GroupHandle& group) { new (place) Coalescing(group.get()); },
          nb::arg("group"))
      .def("end", &Coalescing::end, "Starts them together.");
  nb::class_<CompletionWatch>(module, "CompletionWatch", "Who is told of each operation's end.")
      .def(
          "__init__",
          [](CompletionWatch* place, const GroupHandle& group, const nb::callable& hook) {
            new (place) CompletionWatch(group.get(), hook);
          },
          nb::arg("group"), nb::arg("hook"),
          nb::sig("def __init__(self, group: Group, "
                  "hook: collections.abc.Callable[[int, int, int, int, float], object]) -> None"))
      .def(
          "wait", [](CompletionWatch& self) { withoutLock([&] { self.wait(); }); },
          "Returns when all operations that were begun have ended, and the hook was told.");
  module.def(
      "sequence_number",
      [](const GroupHandle& group) { return group.get().processGroup().sequenceNumber(); },
      nb::arg("group"), "How many operations there were.");
  module.def(
      "has_hooks", [](const GroupHandle& group) { return group.get().processGroup().hasHooks(); },
      nb::arg("group"), "Whether somebody is told of operations.");
}

}  // namespace

void bindBackend(nb::module_& module) {
  bindOpenWork(module);
  bindMakingOfBackends(module);
  bindSights(module);
}

}  // namespace unisono::python
