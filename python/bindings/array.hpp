// Arrays of Python as tensors: the same memory, by the buffer protocol or by DLPack.
#pragma once

#include <nanobind/nanobind.h>
#include <vector>

#include "unisono/tensor/tensor.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// Whether an operation only reads an array, or writes to it.
enum class Access : bool { READ, WRITE };

/// A view of `array` that keeps it alive. TypeError when it is no array; UsageError when its
/// elements are of no type that tensors have, it cannot be written to though it must, or its memory
/// is not what the array means (PyTorch's tensors that require grad, are conjugated or negated).
Tensor toTensor(nb::handle array, Access access);
std::vector<Tensor> toTensors(nb::handle arrays, Access access);

/// The other way: an array of NumPy's that looks at the memory of `tensor`, and keeps it.
/// UsageError for elements that NumPy has only with the package ml_dtypes, where that is missing.
nb::object toArray(const Tensor& tensor);
nb::list toArrays(const std::vector<Tensor>& tensors);

}  // namespace unisono::python
