// FakeBackend: one process that pretends to be rank r of many, for tests and dry runs.
//
// Every operation has ended when its call returns. What would come from other ranks is made up of
// this rank's own inputs: gathers repeat the input, scatters take the own slot, reductions leave
// tensors as they are. Only memory of the CPU is touched.
#pragma once

#include <string_view>
#include <vector>

#include "unisono/backend/backend.hpp"
#include "unisono/base/api.hpp"

namespace unisono {

struct FakeBackendOptions {
  int fakeOption = 0;              // does nothing; kept for those who set it
  bool errorOnCollective = false;  // every collective, not send and recv, throws
};

class UNISONO_API FakeBackend final : public Backend {
 public:
  explicit FakeBackend(const BackendParams& params, FakeBackendOptions options = {});
  ~FakeBackend() override;

  std::string_view name() const noexcept override { return "fake"; }
  WorkPtr start(CollectiveArgs&& args) override;
  WorkPtr startCoalesced(std::vector<CollectiveArgs> batch) override;
  void monitoredBarrier(const BarrierOptions& opts, bool waitAllRanks) override;
  std::shared_ptr<Backend> split(std::shared_ptr<Store> store, const std::vector<int>& ranks,
                                 const BackendOptions& options) override;
  const FakeBackendOptions& fakeOptions() const noexcept { return fake_; }

 private:
  void fail(OpType type) const;
  const FakeBackendOptions fake_;
};

}  // namespace unisono
