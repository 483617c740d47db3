// The extension module unisono._core.
#include "unisono/version.hpp"

#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/gil.hpp"

namespace python = unisono::python;

NB_MODULE(_core, module) {
  // Objects of a daemon thread, or of a program that just ends, are no mistake to report.
  nanobind::set_leak_warnings(false);
  module.doc() = "unisono's C++ library, as the package uses it.";
  module.attr("version") = UNISONO_VERSION_STRING;
  python::followInterpreter(module);
  python::translateErrors();
  python::bindDebug(module);
  python::bindStore(module);
  python::bindKinds(module);
  python::bindControl(module);
  python::bindRendezvous(module);
  python::bindWork(module);
  python::bindGroup(module);
  python::bindBackend(module);
  python::bindDdp(module);
  python::bindReducer(module);
  python::bindLogger(module);
}
