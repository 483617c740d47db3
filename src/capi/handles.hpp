// What is behind the handles of unisono.h.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "unisono/group/group.hpp"
#include "unisono/store/store.hpp"
#include "unisono/unisono.h"
#include "unisono/work/options.hpp"

#include "base/mutex.hpp"

struct unisono_group {
  explicit unisono_group(unisono::Group made) : group(std::move(made)), name(group.name()) {}

  unisono::Group group;
  const std::string name;
  unisono::Mutex mutex;
  std::optional<unisono::CoalescingScope> batch UNISONO_GUARDED_BY(mutex);
};

struct unisono_store {
  unisono::StorePtr store;
};

struct unisono_work {
  unisono::WorkPtr work;
};

struct unisono_memory {
  unisono::Tensor tensor;
};

namespace unisono::capi {

/// A copy for the caller, which frees it without C++.
unisono_bytes copyOf(const void* data, std::size_t size);

/// UNISONO_UNSET becomes `unset`.
inline std::chrono::milliseconds timeoutOf(std::int64_t milliseconds,
                                           std::chrono::milliseconds unset) noexcept {
  return milliseconds == UNISONO_UNSET ? unset : std::chrono::milliseconds(milliseconds);
}
inline std::optional<std::chrono::milliseconds> timeoutOf(std::int64_t milliseconds) noexcept {
  return milliseconds == UNISONO_UNSET ? std::nullopt
                                       : std::optional(std::chrono::milliseconds(milliseconds));
}

}  // namespace unisono::capi
