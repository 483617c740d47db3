// Recording: what the clients of a real server were told while it is paused and they are cut off.
#pragma once

#include "linear/history.hpp"

namespace unisono::linear {

struct Circumstances {
  const char* name;
  bool useLibUv;
  bool synchronous;
  bool pauses;  // of the server
  bool cuts;    // of connections
};

struct RecordingOptions {
  Circumstances how;
  int clients = 6;
  int calls = 400;  // of each
  std::uint64_t seed = 1;
};

/// Starts a server in a process of its own and lets the clients loose on it. To be called while
/// there are no threads.
History record(const RecordingOptions& options);

}  // namespace unisono::linear
