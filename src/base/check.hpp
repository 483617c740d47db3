// Checks: UNISONO_CHECK for what a caller can get wrong, UNISONO_DCHECK for what only we can.
#pragma once

#include <string>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::detail {

[[noreturn]] inline void failCheck(std::string text) {
  throw UsageError({.reason = Reason::USAGE, .what = std::move(text)});
}

/// Prints the broken assumption and ends the process: going on would lose data.
[[noreturn]] void failDcheck(const char* file, int line, const char* condition);

}  // namespace unisono::detail

/// Throws UsageError with the sentence made of `parts` unless `condition` holds.
#define UNISONO_CHECK(condition, ...)                            \
  do {                                                           \
    if (!(condition)) [[unlikely]] {                             \
      ::unisono::detail::failCheck(::unisono::str(__VA_ARGS__)); \
    }                                                            \
  } while (false)

#ifdef NDEBUG
// Looked at by the compiler only: what is used nowhere else must not count as unused.
#define UNISONO_DCHECK(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#define UNISONO_DCHECK(condition)                                    \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::unisono::detail::failDcheck(__FILE__, __LINE__, #condition); \
    }                                                                \
  } while (false)
#endif
