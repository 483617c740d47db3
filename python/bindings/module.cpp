// The extension module unisono._core.
#include "unisono/version.hpp"

#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/gil.hpp"

NB_MODULE(_core, module) {
  using namespace unisono::python;
  // Objects of a daemon thread, or of a program that just ends, are no mistake to report.
  nb::set_leak_warnings(false);
  module.doc() = "unisono's C++ library, as unisono.distributed uses it.";
  module.attr("version") = UNISONO_VERSION_STRING;
  followInterpreter(module);
  translateErrors();
  bindStore(module);
  bindKinds(module);
  bindRendezvous(module);
}
