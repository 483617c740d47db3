// AnyRank: one rank of a world, whichever way it reaches the others; every call runs at once.
#pragma once

#include <utility>
#include <vector>

#include "unisono/work/collective_api.hpp"

#include "backend/native/link_executor.hpp"
#include "backend/native/native_backend.hpp"
#include "collective/selection.hpp"
#include "support/support.hpp"

namespace unisono::test {

class AnyRank : public CollectiveApi<AnyRank> {
 public:
  virtual ~AnyRank() = default;
  virtual int rank() const = 0;
  virtual WorkPtr submit(CollectiveArgs&& args) = 0;
};

/// Shares nothing but messages with the others.
class LinkRank final : public AnyRank {
 public:
  LinkRank(Communicator& comm, const links::LinkSelector& selector, std::vector<int> globalRanks)
      : comm_(comm), executor_(comm, selector, std::move(globalRanks)) {}

  int rank() const override { return comm_.rank(); }
  WorkPtr submit(CollectiveArgs&& args) override {
    args.validate(comm_.rank(), comm_.size());
    executor_.run(args, std::chrono::seconds(20));
    result = args.outputs;
    return finishedWork();
  }

  TensorList result;

 private:
  Communicator& comm_;
  LinkExecutor executor_;
};

/// Of a native backend: shared memory, or whatever UNISONO_TRANSPORT says.
class NativeRank final : public AnyRank {
 public:
  explicit NativeRank(NativeBackend& backend) : backend_(backend) {}

  int rank() const override { return backend_.rank(); }
  WorkPtr submit(CollectiveArgs&& args) override {
    WorkPtr work = backend_.submit(std::move(args));
    work->wait();
    return work;
  }

 private:
  NativeBackend& backend_;
};

/// All that is for large tensors where ranks reach each other by messages.
inline constexpr const char* kLinksForLarge =
    "allreduce=tcp/ring,reduce=tcp/ring,broadcast=tcp/scattered,allgather=tcp/ring,"
    "reducescatter=tcp/pairwise,alltoall=tcp/pairwise";

/// What is chosen when UNISONO_ALGO is `text`.
inline links::LinkSelector linksForcedTo(const char* text) {
  const ScopedEnv algorithm("UNISONO_ALGO", text);
  return Selector().links();
}

}  // namespace unisono::test
