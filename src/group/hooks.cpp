#include "unisono/group/hooks.hpp"

#include "base/log.hpp"

namespace unisono {

void HookHandle::remove() noexcept {
  if (const std::function<void()> remove = std::exchange(remove_, nullptr)) {
    try {
      remove();
    } catch (const std::exception& error) {
      UNISONO_LOG(ERROR, "group", "a hook could not be removed: ", error.what());
    }
  }
}

}  // namespace unisono
