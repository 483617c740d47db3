// runOn: a task for the thread of a reactor, waited for.
#pragma once

#include <functional>

#include "net/reactor.hpp"

namespace unisono {

/// Runs `task` on the reactor's thread and returns when it is done; throws what it threw. Not from
/// that thread. The reactor must be running, or about to.
void runOn(Reactor& reactor, const std::function<void()>& task);

}  // namespace unisono
