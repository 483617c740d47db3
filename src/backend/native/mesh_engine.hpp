// MeshEngine: for ranks of several hosts, by TCP; also on one host, where that is asked for.
#pragma once

#include <memory>

#include "backend/native/engine.hpp"
#include "backend/native/link_executor.hpp"
#include "transport/mesh/courier.hpp"
#include "transport/mesh/mail.hpp"

namespace unisono {

class MeshEngine final : public Engine {
 public:
  /// With the cookie of the group that its ranks have agreed on; else they do so first. `spent`: of
  /// the time that forming may take.
  static std::shared_ptr<Engine> make(const BackendParams& params, std::string cookie = {},
                                      Milliseconds spent = {});
  /// For make().
  MeshEngine(const BackendParams& params, std::string cookie, Milliseconds spent);

  void run(CollectiveArgs& args, Milliseconds timeout) override { executor_.run(args, timeout); }
  void monitoredBarrier(const MonitoredBarrierOptions& options) override;
  Mail& mail() noexcept override { return mail_; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  AbortCause fail(AbortCause cause) noexcept override { return mesh_->fail(cause); }
  std::optional<AbortCause> cause() const override { return mesh_->cause(); }
  void leave() noexcept override { mesh_->leave(); }

 private:
  const std::unique_ptr<mesh::Mesh> mesh_;
  mesh::Courier courier_;
  LinkExecutor executor_;
  mesh::Mail mail_;  // last: its thread uses all of the above
};

}  // namespace unisono
