// Params: what is trained, and whether all ranks mean the same by it.
#pragma once

#include <span>
#include <string>

#include "unisono/base/api.hpp"
#include "unisono/group/group.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono {

/// A parameter: a view of its values, and its name for those who read errors.
struct Param {
  Tensor value;
  std::string name = {};
};

/// "fc.bias (parameter 3)", or "parameter 3" of one without a name.
UNISONO_API std::string describe(const Param& param, std::size_t index);

/// Returns when all ranks have called it with as many parameters of the same names, types, sizes
/// and strides, in the same order. Otherwise throws DistBackendError (MISMATCH) on all ranks, with
/// the same sentence: which parameter differs on which rank. The group stays usable.
UNISONO_API void verifyParams(const Group& group, std::span<const Param> params);

}  // namespace unisono
