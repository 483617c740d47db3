// unisono._torch: makes the backend that torch.distributed is given. Everything else that users see
// is in unisono/torch.py.
#include <chrono>
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <string>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "base/wait.hpp"
#include "python.hpp"

namespace unisono::plugin {
namespace {

namespace py = pybind11;
using OptionsPtr = TorchBackend::OptionsPtr;

/// The interrupt hook of waits: Ctrl-C, and whatever else the program handles.
void checkSignals() {
  if (::gettid() != ::getpid() || Py_IsInitialized() == 0) {
    return;  // Python runs signal handlers on its main thread only
  }
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

c10::intrusive_ptr<TorchBackend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                        int size, std::chrono::milliseconds timeout,
                                        const std::string& name,
                                        const std::vector<std::uint64_t>& globalRanks) {
  auto options = c10::make_intrusive<TorchBackend::Options>(timeout);
  options->group_name = name;
  options->global_ranks_in_group = globalRanks;
  return c10::make_intrusive<TorchBackend>(store, rank, size, std::move(options));
}

OptionsPtr copyOf(const OptionsPtr& options) {
  return c10::make_intrusive<TorchBackend::Options>(*options);
}

}  // namespace

InterpreterUnlock::InterpreterUnlock() noexcept {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    state_ = PyEval_SaveThread();
  }
}

InterpreterUnlock::~InterpreterUnlock() {
  if (state_ != nullptr) {
    PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
  }
}

PYBIND11_MODULE(_torch, module) {
  py::module_::import("torch._C._distributed_c10d");  // knows the classes that ours derive from
  setInterruptHook(checkSignals);

  py::class_<TorchBackend::Options, OptionsPtr, c10d::Backend::Options>(module, "Options")
      .def(py::init([](std::chrono::milliseconds timeout) {
             return c10::make_intrusive<TorchBackend::Options>(timeout);
           }),
           py::arg("timeout") = kBackendDefaultTimeout)
      .def("__copy__", copyOf)
      .def(
          "__deepcopy__",
          [](const OptionsPtr& options, const py::dict&) { return copyOf(options); },
          py::arg("memo"));

  py::class_<TorchBackend, c10::intrusive_ptr<TorchBackend>, c10d::Backend>(module, "Backend")
      .def_property_readonly("options", &TorchBackend::options)
      .def_property_readonly("registered_uses", &TorchBackend::registeredUses)
      .def("_set_default_timeout", &TorchBackend::setTimeout, py::arg("timeout"),
           py::call_guard<py::gil_scoped_release>())
      .def(
          "get_error", [](TorchBackend& self) { return self.getError(); },
          py::call_guard<py::gil_scoped_release>());

  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout"), py::arg("name"), py::arg("global_ranks"),
             py::call_guard<py::gil_scoped_release>());
  module.def("leave", &leaveGroups, py::call_guard<py::gil_scoped_release>());
}

}  // namespace unisono::plugin
