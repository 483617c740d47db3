// What `unisono run` prints: the lines of the ranks, and how the job ended.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launch/supervisor.hpp"
#include "manner.hpp"

namespace unisono::cli {

using LineFormat = std::function<std::string(const launch::Origin& origin, std::string_view line)>;

/// The line behind `prefix` ("[{rank}]"; {rank} and {host} stand for what they say; "none" for
/// nothing), or as JSON.
LineFormat lineFormat(const Manner& manner, const std::string& prefix);

/// Says how the job ended; returns the exit code. Throws ClosedPipe or FileFailure when its output
/// could not be written.
int tellEnd(const Manner& manner, const launch::Report& report);

}  // namespace unisono::cli
