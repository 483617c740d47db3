// What stands between exceptions and callers that know none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "unisono/unisono.h"

#include "base/check.hpp"

namespace unisono::capi {

/// Keeps the exception that is being handled as the last error of this thread; its status.
unisono_status keepError() noexcept;

/// Runs `body`; what it throws becomes a status.
template <typename Body>
unisono_status guarded(Body&& body) noexcept {
  try {
    body();
    return UNISONO_OK;
  } catch (...) {
    return keepError();
  }
}

/// What a caller must give.
template <typename T>
T& given(T* pointer, const char* name) {
  UNISONO_CHECK(pointer != nullptr, name, " is NULL");
  return *pointer;
}

/// The options of a caller whose structure may be shorter, or longer, than that of this library;
/// `defaults` for what it does not know, and for NULL.
template <typename Options>
Options known(const Options* options, const Options& defaults) {
  if (options == nullptr) {
    return defaults;
  }
  UNISONO_CHECK(options->struct_size >= sizeof options->struct_size,
                "options have no size; begin them with their initialiser, such as "
                "UNISONO_CALL_OPTIONS");
  Options all = defaults;
  std::memcpy(&all, options, std::min(options->struct_size, sizeof all));
  return all;
}

}  // namespace unisono::capi
