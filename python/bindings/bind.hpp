// The parts of the extension module, in the order in which they must be bound.
#pragma once

#include <nanobind/nanobind.h>

namespace unisono::python {

namespace nb = nanobind;

void bindStore(nb::module_& module);
void bindKinds(nb::module_& module);  // after the class they derive from
void bindRendezvous(nb::module_& module);
void bindWork(nb::module_& module);
void bindGroup(nb::module_& module);  // after Work, which its operations give

}  // namespace unisono::python
