// Backends whose works end where a test wants them to.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "unisono/backend/backend.hpp"

#include "work/work_kinds.hpp"

namespace unisono::test {

constexpr Capabilities kAnything = {.devices = {DeviceType::CPU, DeviceType::CUDA},
                                    .coalescing = true};

/// Never ends an operation by itself; abort() ends all, and the test may end some. What is open
/// when it goes ends with it: works that wait for each other would keep each other.
class OpenBackend : public Backend {
 public:
  explicit OpenBackend(const BackendParams& params) : Backend(params, kAnything) {}
  ~OpenBackend() override {
    for (const auto& work : works) {
      work->finish();
    }
  }
  std::string_view name() const noexcept override { return "open"; }

  WorkPtr start(CollectiveArgs&& args) override {
    works.push_back(std::make_shared<OpenWork>(args.type, args.seq));
    calls.push_back(std::move(args));
    return works.back();
  }
  WorkPtr startCoalesced(std::vector<CollectiveArgs> batch) override {
    batches.push_back(std::move(batch));
    works.push_back(std::make_shared<OpenWork>(OpType::COALESCED, batches.back().front().seq));
    return works.back();
  }
  void monitoredBarrier(const BarrierOptions&, bool) override { ++barriers; }
  void abort(std::exception_ptr reason) override {
    for (const auto& work : works) {
      work->finish(reason);
    }
  }

  std::vector<CollectiveArgs> calls;
  std::vector<std::vector<CollectiveArgs>> batches;
  std::vector<std::shared_ptr<OpenWork>> works;
  int barriers = 0;
};

/// Ends every operation on a thread of its own.
class ThreadBackend final : public Backend {
 public:
  explicit ThreadBackend(const BackendParams& params) : Backend(params, kAnything) {}
  ~ThreadBackend() override {
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  std::string_view name() const noexcept override { return "thread"; }
  WorkPtr start(CollectiveArgs&& args) override {
    auto work = std::make_shared<OpenWork>(args.type, args.seq);
    threads_.emplace_back([work, args = std::move(args)]() mutable {
      work->markStarted();
      work->finish(nullptr, std::move(args.outputs));
    });
    return work;
  }

 private:
  std::vector<std::thread> threads_;
};

/// Fails: at once, or by its works.
class FailingBackend final : public Backend {
 public:
  enum class When : std::uint8_t { AT_ONCE, LATER };
  FailingBackend(const BackendParams& params, When when)
      : Backend(params, kAnything), when_(when) {}
  std::string_view name() const noexcept override { return "failing"; }
  WorkPtr start(CollectiveArgs&& args) override {
    if (when_ == When::AT_ONCE) {
      std::rethrow_exception(peerDied());
    }
    return failedWork(args.type, args.seq, peerDied());
  }
  void abort(std::exception_ptr) override { throw std::runtime_error("cannot even abort"); }
  void shutdown() override { throw std::runtime_error("cannot even shut down"); }

 private:
  const When when_;
};

}  // namespace unisono::test
