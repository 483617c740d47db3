// ShmEngine: for ranks of one host, by the memory that they share.
#pragma once

#include <memory>

#include "backend/native/engine.hpp"
#include "backend/native/executor.hpp"
#include "transport/shm/mail.hpp"
#include "transport/shm/segment.hpp"

namespace unisono {

class ShmEngine final : public Engine {
 public:
  static std::shared_ptr<Engine> make(const BackendParams& params);
  /// For make().
  explicit ShmEngine(const BackendParams& params);

  void run(CollectiveArgs& args, Milliseconds timeout) override { executor_.run(args, timeout); }
  void monitoredBarrier(const MonitoredBarrierOptions& options) override;
  Mail& mail() noexcept override { return mail_; }
  /// Peers reach it where it is.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  std::uint64_t registeredUses() const noexcept override { return executor_.registeredUses(); }
  AbortCause fail(AbortCause cause) noexcept override { return segment_->fail(std::move(cause)); }
  std::optional<AbortCause> cause() const override { return segment_->cause(); }
  void leave() noexcept override { segment_->leave(); }

 private:
  const std::unique_ptr<shm::Segment> segment_;
  shm::Arena arena_;
  Executor executor_;
  shm::Mail mail_;  // last: its thread uses all of the above
};

}  // namespace unisono
