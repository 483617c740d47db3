// runInTurn: a function as one of the operations of a lane.
#pragma once

#include <functional>
#include <memory>

#include "unisono/work/op_type.hpp"

#include "backend/native/lane.hpp"

namespace unisono {

/// Runs `body` after all that the lane was given before, and returns when it has ended; throws
/// what it throws, or why the lane is closed. `body` must not wait for something of the same lane.
void runInTurn(const std::shared_ptr<Lane>& lane, OpType type, std::function<void()> body);

}  // namespace unisono
