// Engine: what a NativeBackend runs on: how its ranks reach each other, and who drives.
//
// It outlives its backend for as long as a thread is inside it: one that waits for a Work may be
// driving operations when another thread lets go of the group, and a callback, on whatever thread,
// may itself let go of the last reference to it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "unisono/backend/backend.hpp"

#include "backend/native/lane.hpp"
#include "backend/native/monitored_barrier.hpp"
#include "collective/selection.hpp"
#include "life/abort_record.hpp"
#include "transport/mail.hpp"
#include "transport/meeting.hpp"

namespace unisono {

class Engine {
 public:
  /// Meets the other ranks. Throws as shm::Segment::form() and mesh::Mesh::form().
  static std::shared_ptr<Engine> make(const BackendParams& params);

  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs an operation, on the thread that drives the lane.
  virtual void run(CollectiveArgs& args, Milliseconds timeout) = 0;
  virtual void monitoredBarrier(const MonitoredBarrierOptions& options) = 0;
  /// What carries messages.
  virtual Mail& mail() noexcept = 0;
  /// Memory that the operations of this group handle best.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// How many operations others have found in such memory of this rank.
  virtual std::uint64_t registeredUses() const noexcept { return 0; }

  /// Ends the group: tells all ranks `cause`, unless another one was told before. Returns the one
  /// that counts.
  virtual AbortCause fail(AbortCause cause) noexcept = 0;
  /// What ended the group, if something did.
  virtual std::optional<AbortCause> cause() const = 0;
  /// Says goodbye to the others, in good order.
  virtual void leave() noexcept = 0;

  /// Fails what is under way, and what comes from now on, with `reason`.
  void close(const std::exception_ptr& reason);
  /// Leaves the group, for the backend's destructor. What is under way may end for a moment; then
  /// it fails, here and on the ranks that need this one for it. Nothing is changed any more when it
  /// returns.
  void end();

  const int rank;
  const std::string group;
  const std::vector<int> globalRanks;  // by rank in the group
  const Selector selector;
  Lane lane{"unisono-lane"};

 protected:
  explicit Engine(const BackendParams& params);
  /// What the ranks meet with.
  FormOptions formOptions(const BackendParams& params) const;
};

}  // namespace unisono
