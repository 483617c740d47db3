// What Python passes in, as C++ wants it; wrong types are TypeErrors of one line.
//
// The types here are what the signatures of the bindings and the stubs show. They take any object;
// the conversion happens inside the call, which knows what to say when it fails.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nanobind/nanobind.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/store/store.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// A key or a value: str (as UTF-8), bytes or bytearray (as they are).
struct TextArg {
  nb::handle object;
};

/// Any iterable of keys or values, but not a single one.
struct TextsArg {
  nb::handle object;
};

/// A timedelta, or seconds as a float. An int is refused, as torch does: milliseconds or seconds?
struct DurationArg {
  nb::handle object;
};

/// Text as the caller passed it, for as long as the call lasts.
class Text {
 public:
  /// `name` is what the caller knows the argument by, such as "key".
  Text(TextArg argument, const char* name);

  std::string_view view() const noexcept { return view_; }
  BytesView bytes() const noexcept;
  std::string string() const { return std::string(view_); }

 private:
  std::string copy_;  // of a bytearray, which another thread may change meanwhile
  std::string_view view_;
};

std::vector<std::string> toStrings(TextsArg argument, const char* name);
std::vector<Bytes> toValues(TextsArg argument, const char* name);
std::chrono::milliseconds toDuration(DurationArg argument, const char* name);

/// A whole number from `least` to `most`; TypeError otherwise, as torch does.
std::int64_t toWhole(nb::handle object, const char* name, std::int64_t least, std::int64_t most);

/// Such numbers from 0 on, of any sequence.
std::vector<std::size_t> toSizes(nb::handle numbers, const char* name);

/// Anything with a truth value of its own, or None.
bool toFlag(nb::handle object, const char* name);

nb::object toTimedelta(std::chrono::milliseconds duration);
nb::bytes toPython(BytesView value);
nb::str toPython(std::string_view text);
nb::list toPython(std::span<const Bytes> values);

/// Raises TypeError: "`name` must be `wanted`, not int".
[[noreturn]] void refuseType(const char* name, const char* wanted, nb::handle got);

}  // namespace unisono::python

namespace nanobind::detail {

// Each takes any object: see the head of this file.
#define UNISONO_ANY_OBJECT(Argument, shown)                                               \
  template <>                                                                             \
  struct type_caster<Argument> {                                                          \
    NB_TYPE_CASTER(Argument, const_name(shown))                                           \
    bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {              \
      value.object = source;                                                              \
      return true;                                                                        \
    }                                                                                     \
    static handle from_cpp(const Argument& argument, rv_policy, cleanup_list*) noexcept { \
      return argument.object.inc_ref();                                                   \
    }                                                                                     \
  }

UNISONO_ANY_OBJECT(unisono::python::TextArg, "str | bytes | bytearray");
UNISONO_ANY_OBJECT(unisono::python::TextsArg, "collections.abc.Iterable[str | bytes | bytearray]");
UNISONO_ANY_OBJECT(unisono::python::DurationArg, "datetime.timedelta | float");

#undef UNISONO_ANY_OBJECT

}  // namespace nanobind::detail
