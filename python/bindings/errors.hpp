// Errors of C++ as the exceptions of unisono.distributed.
#pragma once

namespace unisono::python {

/// Makes bindings raise the classes of unisono/_errors.py, with every field of the error.
void translateErrors();

}  // namespace unisono::python
