// The parts of the extension module, in the order in which they must be bound.
#pragma once

#include <nanobind/nanobind.h>

namespace unisono::python {

namespace nb = nanobind;

void bindDebug(nb::module_& module);
void bindStore(nb::module_& module);
void bindKinds(nb::module_& module);    // after the class they derive from
void bindControl(nb::module_& module);  // after the stores that it takes
void bindRendezvous(nb::module_& module);
void bindWork(nb::module_& module);
void bindGroup(nb::module_& module);    // after Work, which its operations give
void bindBackend(nb::module_& module);  // after Work and Group, which it adds to
void bindDdp(nb::module_& module);      // after Group, which it works for
void bindReducer(nb::module_& module);  // the same
void bindLogger(nb::module_& module);   // after Reducer, of which it is

}  // namespace unisono::python
