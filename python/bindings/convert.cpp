#include "bindings/convert.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.hpp"
#include "base/str.hpp"

namespace unisono::python {
namespace {

constexpr const char* kTextTypes = "str, bytes or bytearray";
constexpr const char* kListTypes = "a list of str, bytes or bytearray";

/// Later than any program lives, and far from the ends of int64: 31 million years.
constexpr double kMostSeconds = 1e15;

bool isText(nb::handle object) {
  return PyUnicode_Check(object.ptr()) != 0 || PyBytes_Check(object.ptr()) != 0 ||
         PyByteArray_Check(object.ptr()) != 0;
}

std::string_view utf8(nb::handle text, const char* name) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) {
      throw nb::python_error();
    }
    PyErr_Clear();
    throw nb::type_error(str(name, " holds a lone surrogate, which has no UTF-8 form").c_str());
  }
  return {data, static_cast<std::size_t>(size)};
}

/// How many items there will be, or 0 where nobody knows before.
std::size_t sizeHint(TextsArg argument) {
  const Py_ssize_t hint = PyObject_LengthHint(argument.object.ptr(), 0);
  if (hint < 0) {
    PyErr_Clear();  // whoever goes through them meets it again
  }
  // Whoever claims to have more than this may be wrong.
  return static_cast<std::size_t>(std::clamp<Py_ssize_t>(hint, 0, 1 << 16));
}

template <typename Use>
void forEach(TextsArg argument, const char* name, Use&& use) {
  if (isText(argument.object)) {
    refuseType(name, kListTypes, argument.object);
  }
  PyObject* const found = PyObject_GetIter(argument.object.ptr());
  if (found == nullptr) {
    PyErr_Clear();
    refuseType(name, kListTypes, argument.object);
  }
  const nb::object items = nb::steal(found);
  while (PyObject* item = PyIter_Next(items.ptr())) {
    const nb::object held = nb::steal(item);
    use(Text(TextArg{held}, name));
  }
  if (PyErr_Occurred() != nullptr) {
    throw nb::python_error();
  }
}

std::chrono::milliseconds fromSeconds(double seconds, const char* name) {
  if (!(std::abs(seconds) <= kMostSeconds)) {  // NaN too
    throw nb::value_error(str(name, " is not a number of seconds that can be waited").c_str());
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

void refuseType(const char* name, const char* wanted, nb::handle got) {
  const nb::str type = nb::borrow<nb::str>(got.type().attr("__name__"));
  throw nb::type_error(str(name, " must be ", wanted, ", not ", type.c_str()).c_str());
}

Text::Text(TextArg argument, const char* name) {
  PyObject* const object = argument.object.ptr();
  if (PyUnicode_Check(object) != 0) {
    view_ = utf8(argument.object, name);
  } else if (PyBytes_Check(object) != 0) {
    view_ = {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
  } else if (PyByteArray_Check(object) != 0) {
    copy_.assign(PyByteArray_AS_STRING(object),
                 static_cast<std::size_t>(PyByteArray_GET_SIZE(object)));
    view_ = copy_;
  } else {
    refuseType(name, kTextTypes, argument.object);
  }
}

BytesView Text::bytes() const noexcept {
  return asBytes(view_);
}

std::vector<std::string> toStrings(TextsArg argument, const char* name) {
  std::vector<std::string> texts;
  texts.reserve(sizeHint(argument));
  forEach(argument, name, [&](const Text& text) { texts.emplace_back(text.view()); });
  return texts;
}

std::vector<Bytes> toValues(TextsArg argument, const char* name) {
  std::vector<Bytes> values;
  forEach(argument, name,
          [&](const Text& text) { values.emplace_back(text.bytes().begin(), text.bytes().end()); });
  return values;
}

std::chrono::milliseconds toDuration(DurationArg argument, const char* name) {
  if (PyFloat_Check(argument.object.ptr()) != 0) {
    return fromSeconds(PyFloat_AS_DOUBLE(argument.object.ptr()), name);
  }
  const nb::object timedelta = nb::module_::import_("datetime").attr("timedelta");
  if (!nb::isinstance(argument.object, timedelta)) {
    refuseType(name, "a timedelta or a float of seconds", argument.object);
  }
  const auto whole = [&](const char* part) {
    return nb::cast<std::int64_t>(argument.object.attr(part));
  };
  const std::chrono::microseconds rest(whole("microseconds"));
  return std::chrono::hours(24 * whole("days")) + std::chrono::seconds(whole("seconds")) +
         std::chrono::duration_cast<std::chrono::milliseconds>(rest);
}

std::int64_t toWhole(nb::handle object, const char* name, std::int64_t least, std::int64_t most) {
  const nb::object whole = nb::steal(PyNumber_Index(object.ptr()));
  if (!whole.is_valid()) {
    PyErr_Clear();
    refuseType(name, "an int", object);
  }
  int overflow = 0;
  const std::int64_t number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  if (overflow != 0 || number < least || number > most) {
    const nb::str shown(whole);
    throw nb::type_error(
        str(name, " must be from ", least, " to ", most, ", but is ", shown.c_str()).c_str());
  }
  return number;
}

std::vector<std::size_t> toSizes(nb::handle numbers, const char* name) {
  std::vector<std::size_t> sizes;
  for (const nb::handle number : nb::borrow<nb::sequence>(numbers)) {
    sizes.push_back(static_cast<std::size_t>(toWhole(number, name, 0, INT64_MAX)));
  }
  return sizes;
}

bool toFlag(nb::handle object, const char* name) {
  const PyNumberMethods* const numbers = Py_TYPE(object.ptr())->tp_as_number;
  if (!object.is_none() && (numbers == nullptr || numbers->nb_bool == nullptr)) {
    refuseType(name, "a bool", object);
  }
  const int truth = PyObject_IsTrue(object.ptr());
  if (truth < 0) {
    throw nb::python_error();
  }
  return truth != 0;
}

nb::object toTimedelta(std::chrono::milliseconds duration) {
  return nb::module_::import_("datetime")
      .attr("timedelta")(nb::arg("milliseconds") = duration.count());
}

nb::bytes toPython(BytesView value) {
  return nb::bytes(value.data(), value.size());
}

nb::list toPython(std::span<const Bytes> values) {
  PyObject* const made = PyList_New(static_cast<Py_ssize_t>(values.size()));
  if (made == nullptr) {
    throw nb::python_error();
  }
  nb::list list = nb::steal<nb::list>(made);
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                    toPython(BytesView(values[i])).release().ptr());
  }
  return list;
}

nb::str toPython(std::string_view text) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
  if (decoded == nullptr) {
    throw nb::python_error();
  }
  return nb::steal<nb::str>(decoded);
}

}  // namespace unisono::python
