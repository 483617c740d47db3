// Engine: what a NativeBackend runs on: the memory it shares with its peers, and who drives.
//
// It outlives its backend for as long as a thread is inside it: one that waits for a Work may be
// driving operations when another thread lets go of the group, and a callback, on whatever thread,
// may itself let go of the last reference to it.
#pragma once

#include <memory>
#include <vector>

#include "unisono/backend/backend.hpp"

#include "backend/native/executor.hpp"
#include "backend/native/lane.hpp"
#include "transport/shm/mail.hpp"
#include "transport/shm/segment.hpp"

namespace unisono {

struct Engine {
  /// Meets the other ranks. Throws as shm::Segment::form().
  static std::shared_ptr<Engine> make(const BackendParams& params);
  /// For make().
  explicit Engine(const BackendParams& params);

  /// Leaves the group, for the backend's destructor. What is under way may end for a moment; then
  /// it fails, here and on the ranks that need this one for it. Nothing is changed any more when it
  /// returns.
  void end();

  const std::vector<int> globalRanks;  // by rank in the group
  const Selector selector;
  const std::unique_ptr<shm::Segment> segment;
  shm::Arena arena;
  Executor executor;
  // Last: their threads use all of the above.
  Lane lane;
  shm::Mail mail;
};

}  // namespace unisono
