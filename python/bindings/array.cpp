#include "bindings/array.hpp"

#include <memory>
#include <nanobind/ndarray.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"

namespace unisono::python {
namespace {

constexpr const char* kWanted = "an array (buffer protocol or __dlpack__)";

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw UsageError({.reason = Reason::USAGE, .what = std::move(what), .hint = std::move(hint)});
}

/// What the user calls the type of the elements, or how the buffer describes it.
std::string elementName(nb::handle array, const char* format) {
  const nb::object type = nb::getattr(array, "dtype", nb::none());
  const nb::str shown(type.is_none() ? nb::str(format) : nb::str(type));
  return shown.c_str();
}

[[noreturn]] void refuseElements(nb::handle array, const char* format) {
  refuse(str("an array of ", elementName(array, format), " cannot be sent"),
         "convert it to booleans, or to integers, floats or complex numbers of this machine");
}

[[noreturn]] void refuseReadOnly() {
  refuse("the array is read-only, but the operation writes to it", "give a copy that is not");
}

/// Whole numbers, signed or not, by their width in bytes.
std::optional<DType> wholeType(bool isSigned, std::size_t width) {
  switch (width) {
    case 1:
      return isSigned ? DType::INT8 : DType::UINT8;
    case 2:
      return isSigned ? DType::INT16 : DType::UINT16;
    case 4:
      return isSigned ? DType::INT32 : DType::UINT32;
    case 8:
      return isSigned ? DType::INT64 : DType::UINT64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> floatType(std::string_view format) {
  if (format == "f") {
    return DType::FLOAT32;
  }
  if (format == "d") {
    return DType::FLOAT64;
  }
  if (format == "e") {
    return DType::FLOAT16;
  }
  if (format == "Zf") {
    return DType::COMPLEX64;
  }
  return format == "Zd" ? std::optional(DType::COMPLEX128) : std::nullopt;
}

/// The type that module struct's `format` stands for; none for what tensors cannot have.
std::optional<DType> bufferType(std::string_view format, std::size_t width) {
  if (!format.empty() && std::string_view("@=<").find(format[0]) != std::string_view::npos) {
    format.remove_prefix(1);  // this machine's order; "<" too, on every machine we run on
  }
  if (format == "?") {
    return DType::BOOL;
  }
  if (format.size() == 1 && std::string_view("bhilqn").find(format[0]) != std::string_view::npos) {
    return wholeType(true, width);
  }
  if (format.size() == 1 && std::string_view("BHILQNc").find(format[0]) != std::string_view::npos) {
    return wholeType(false, width);
  }
  return floatType(format);
}

std::optional<DType> dlpackType(nb::dlpack::dtype type) {
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (type.lanes != 1) {
    return std::nullopt;
  }
  switch (code) {
    case nb::dlpack::dtype_code::Int:
      return wholeType(true, type.bits / 8);
    case nb::dlpack::dtype_code::UInt:
      return wholeType(false, type.bits / 8);
    case nb::dlpack::dtype_code::Float:
      return floatType(type.bits == 16 ? "e" : type.bits == 32 ? "f" : type.bits == 64 ? "d" : "");
    case nb::dlpack::dtype_code::Complex:
      return floatType(type.bits == 64 ? "Zf" : type.bits == 128 ? "Zd" : "");
    case nb::dlpack::dtype_code::Bfloat:
      return DType::BFLOAT16;
    case nb::dlpack::dtype_code::Bool:
      return DType::BOOL;
    case nb::dlpack::dtype_code::Float8_E4M3FN:
      return DType::FLOAT8_E4M3;
    case nb::dlpack::dtype_code::Float8_E5M2:
      return DType::FLOAT8_E5M2;
    default:
      return std::nullopt;
  }
}

/// A buffer that its object has exported, until this goes.
struct Exported {
  Py_buffer view{};

  Exported() = default;
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() { PyBuffer_Release(&view); }
};

/// Lets go of what is Python's on whatever thread drops the last tensor; it is left alone once the
/// interpreter lets nobody in.
template <typename T>
std::shared_ptr<T> kept(T* object) {
  return std::shared_ptr<T>(object, [](T* owned) {
    if (const GuestLock lock; lock) {
      delete owned;
    }
  });
}

/// Strides in elements; UsageError when they, or the first element, lie between elements.
Dims stridesOf(const Py_buffer& view) {
  std::vector<std::int64_t> strides;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.strides[i] % view.itemsize != 0) {
      refuse("the elements of the array lie at odd distances, as fields of records do",
             "give a copy: numpy.ascontiguousarray(array)");
    }
    strides.push_back(view.strides[i] / view.itemsize);
  }
  return Dims(strides);
}

Tensor fromBuffer(nb::handle array, Access access, std::optional<DType> known = std::nullopt);

/// The type that an array says by name, of those that buffers have no letter for.
std::optional<DType> typeByName(nb::handle array) {
  const nb::object name = nb::getattr(nb::getattr(array, "dtype", nb::none()), "name", nb::none());
  if (nb::str("bfloat16").equal(name)) {
    return DType::BFLOAT16;
  }
  if (nb::str("float8_e4m3fn").equal(name)) {
    return DType::FLOAT8_E4M3;
  }
  return nb::str("float8_e5m2").equal(name) ? std::optional(DType::FLOAT8_E5M2) : std::nullopt;
}

/// The way back; null for types that NumPy has itself.
const char* nameElsewhere(DType type) {
  switch (type) {
    case DType::BFLOAT16:
      return "bfloat16";
    case DType::FLOAT8_E4M3:
      return "float8_e4m3fn";
    case DType::FLOAT8_E5M2:
      return "float8_e5m2";
    default:
      return nullptr;
  }
}

/// NumPy has types that it cannot describe in a buffer, such as datetime64. Of those that tensors
/// may have, as the package ml_dtypes adds them, the same memory is taken as whole numbers.
Tensor fromUndescribed(nb::handle array, Access access) {
  const std::optional<DType> type = typeByName(array);
  if (!type) {
    refuseElements(array, "an unknown type");
  }
  const nb::object numbers = array.attr("view")(elementSize(*type) == 2 ? "uint16" : "uint8");
  return fromBuffer(numbers, access, type);
}

/// A tensor of `known` elements, or of those that the buffer describes.
Tensor fromBuffer(nb::handle array, Access access, std::optional<DType> known) {
  const std::shared_ptr<Exported> exported = kept(new Exported);
  Py_buffer& view = exported->view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    return fromUndescribed(array, access);
  }
  const char* format = view.format == nullptr ? "B" : view.format;
  const std::optional<DType> type =
      known ? known : bufferType(format, static_cast<std::size_t>(view.itemsize));
  if (!type) {
    refuseElements(array, format);
  }
  if (view.readonly != 0 && access == Access::WRITE) {
    refuseReadOnly();
  }
  const auto part = isComplex(*type) ? elementSize(*type) / 2 : elementSize(*type);
  // An empty one may begin anywhere, as that of array.array does.
  if (view.len > 0 && reinterpret_cast<std::uintptr_t>(view.buf) % part != 0) {
    refuse("the array begins between two elements, as fields of records do",
           "give a copy: numpy.ascontiguousarray(array)");
  }
  const std::vector<std::int64_t> sizes(view.shape, view.shape + view.ndim);
  if (PyBuffer_IsContiguous(&view, 'C') != 0) {
    return Tensor(view.buf, *type, Dims(sizes), Device{}, exported);
  }
  return Tensor(view.buf, *type, Dims(sizes), stridesOf(view), Device{}, exported);
}

bool says(nb::handle array, const char* method) {
  const nb::object found = nb::getattr(array, method, nb::none());
  return !found.is_none() && nb::cast<bool>(found());
}

/// PyTorch hands out the raw memory of these, which is not what they mean.
void refuseWhatHidesItsMeaning(nb::handle array) {
  const nb::object gradient = nb::getattr(array, "requires_grad", nb::none());
  if (gradient.is(Py_True) &&
      nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")())) {
    refuse("the tensor requires grad, which no operation here follows", "pass .detach()");
  }
  if (says(array, "is_conj")) {
    refuse("the tensor is conjugated, which its memory does not show", "pass .resolve_conj()");
  }
  if (says(array, "is_neg")) {
    refuse("the tensor is a negated view, which its memory does not show", "pass .resolve_neg()");
  }
}

Tensor fromDlpack(nb::handle array, Access access) {
  refuseWhatHidesItsMeaning(array);
  using Array = nb::ndarray<nb::ro>;
  const std::shared_ptr<Array> held = kept(new Array);
  if (!nb::try_cast<Array>(array, *held)) {
    refuseType("array", kWanted, array);
  }
  nb::ndarray<> writable;
  if (access == Access::WRITE && !nb::try_cast<nb::ndarray<>>(array, writable)) {
    refuseReadOnly();
  }
  if (held->device_type() != nb::device::cpu::value) {
    refuse("the array is not in the memory of the CPU", "copy it there, as .cpu() does");
  }
  const std::optional<DType> type = dlpackType(held->dtype());
  if (!type) {
    refuseElements(array, "an unknown type");
  }
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  for (std::size_t i = 0; i < held->ndim(); ++i) {
    sizes.push_back(static_cast<std::int64_t>(held->shape(i)));
    strides.push_back(held->stride(i));
  }
  auto* data = const_cast<void*>(held->data());  // written to only with Access::WRITE
  return Tensor(data, *type, Dims(sizes), Dims(strides), Device{}, held);
}

constexpr bool isUnsigned(DType type) noexcept {
  return type == DType::UINT8 || type == DType::UINT16 || type == DType::UINT32 ||
         type == DType::UINT64;
}

/// What NumPy knows elements of `type` by; for those that it does not know, whole numbers as wide.
nb::dlpack::dtype dlpackOf(DType type) {
  using Code = nb::dlpack::dtype_code;
  const auto code = [&] {
    if (type == DType::BOOL) {
      return Code::Bool;
    }
    if (isComplex(type)) {
      return Code::Complex;
    }
    if (isIntegral(type)) {
      return isUnsigned(type) ? Code::UInt : Code::Int;
    }
    return nameElsewhere(type) == nullptr ? Code::Float : Code::UInt;
  }();
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * elementSize(type)), 1};
}

}  // namespace

Tensor toTensor(nb::handle array, Access access) {
  if (PyObject_CheckBuffer(array.ptr()) != 0) {
    return fromBuffer(array, access);
  }
  if (nb::hasattr(array, "__dlpack__")) {
    return fromDlpack(array, access);
  }
  refuseType("array", kWanted, array);
}

std::vector<Tensor> toTensors(nb::handle arrays, Access access) {
  std::vector<Tensor> tensors;
  for (const nb::handle array : nb::borrow<nb::sequence>(arrays)) {
    tensors.push_back(toTensor(array, access));
  }
  return tensors;
}

nb::object toArray(const Tensor& tensor) {
  const std::vector<std::size_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
  const Dims& strides = tensor.strides();
  auto held = std::make_unique<Tensor>(tensor);
  const nb::capsule owner(held.release(),
                          [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  const nb::ndarray<nb::numpy> array(tensor.data(), sizes.size(), sizes.data(), owner,
                                     strides.empty() ? nullptr : strides.begin(),
                                     dlpackOf(tensor.dtype()));
  const char* const name = nameElsewhere(tensor.dtype());
  if (name == nullptr) {
    return nb::cast(array);
  }
  try {
    return nb::cast(array).attr("view")(nb::module_::import_("ml_dtypes").attr(name));
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) {
      throw;
    }
    refuse(str("NumPy has no arrays of ", name), "install the package ml_dtypes, which adds them");
  }
}

nb::list toArrays(const std::vector<Tensor>& tensors) {
  nb::list arrays;
  for (const Tensor& tensor : tensors) {
    arrays.append(toArray(tensor));
  }
  return arrays;
}

}  // namespace unisono::python
