// StoreLimits: how much one client, and all of them together, may ask of a store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace unisono {

/// The first four are those of PyTorch's libuv server; all are inclusive. Raising a limit never
/// changes a byte on the wire.
struct StoreLimits {
  std::uint64_t keyBytes = 8 * 1024;  // with the "/" that clients put in front
  std::uint64_t valueBytes = 8 * 1024 * 1024;
  std::uint64_t keysPerCommand = 131'072;
  std::uint64_t commandBytes = 64 * 1024 * 1024;

  std::uint64_t contentBytes = 1024UL * 1024 * 1024;  // keys, values, queues and waits together
  std::uint64_t keys = 4'000'000;
  std::uint64_t queueLength = 1'000'000;

  std::size_t connections = 65'536;
  std::size_t unvalidated = 1024;  // connections that have not said hello yet
  Milliseconds helloTime = std::chrono::seconds(5);
  Milliseconds stalledCommand = std::chrono::seconds(30);  // half a command, then silence
  Milliseconds stalledReader = std::chrono::seconds(30);   // replies that nobody takes
  std::uint64_t unsentBytes = 64 * 1024 * 1024;            // replies waiting, per connection
  std::uint64_t unsentPause = 1024 * 1024;                 // from here on its requests are not read
  std::uint64_t unsentTotal = 512UL * 1024 * 1024;
  // Incomplete commands, all together; beyond it those that hold most are not read from for a
  // while.
  std::uint64_t partialTotal = 512UL * 1024 * 1024;

  // What is about more keys than these is done so many at a time, others being served in between.
  std::size_t slice = 64;
  // A wait for up to so many keys that are all there is answered at once: one look at each is
  // cheaper than slices.
  std::size_t look = 4096;
};

}  // namespace unisono
