// Backend: what carries out the operations of one group, on one or more kinds of devices.
//
//   class MyBackend final : public Backend {
//    public:
//     explicit MyBackend(const BackendParams& params)
//         : Backend(params, {.ops = {OpType::ALLREDUCE, OpType::BARRIER}, .devices =
//         {DeviceType::CPU}}) {}
//     std::string_view name() const noexcept override { return "mine"; }
//     WorkPtr start(CollectiveArgs&& args) override { … }
//   };
//
// Users call the typed methods (allreduce, …) or submit(); both refuse what the backend does not
// offer and what makes no sense, before anything is started. A backend implements start().
//
// Thread safety: every method may be called from any thread. Operations of one group are matched
// with those of other ranks in the order in which they are started.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/backend/backend_options.hpp"
#include "unisono/base/api.hpp"
#include "unisono/tensor/device.hpp"
#include "unisono/tensor/tensor.hpp"
#include "unisono/work/collective_api.hpp"
#include "unisono/work/work_info.hpp"

namespace unisono {

/// A set of enumerators with small numbers.
template <typename Enum>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<Enum> members) {
    for (const Enum member : members) {
      bits_ |= bit(member);
    }
  }
  static constexpr EnumSet firstOf(int count) noexcept {
    EnumSet set;
    set.bits_ = (1U << count) - 1;
    return set;
  }
  constexpr bool has(Enum member) const noexcept { return (bits_ & bit(member)) != 0; }

 private:
  static constexpr std::uint32_t bit(Enum member) noexcept {
    return static_cast<unsigned>(member) < 32 ? 1U << static_cast<unsigned>(member) : 0;
  }
  std::uint32_t bits_ = 0;
};
using OpSet = EnumSet<OpType>;
using DeviceSet = EnumSet<DeviceType>;

/// What a backend offers.
struct Capabilities {
  OpSet ops = OpSet::firstOf(kOpTypeCount);
  DeviceSet devices = {DeviceType::CPU};
  bool coalescing = false;  // batches by submitCoalesced()
  bool splitting = false;   // split()
};

class UNISONO_API Backend : public CollectiveApi<Backend> {
 public:
  virtual ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// "unisono", "fake".
  virtual std::string_view name() const noexcept = 0;
  const Capabilities& capabilities() const noexcept { return capabilities_; }

  /// check(), then start().
  WorkPtr submit(CollectiveArgs&& args) {
    check(args);
    return start(std::move(args));
  }
  /// One Work for all of `batch`, whose order among each other does not matter.
  WorkPtr submitCoalesced(std::vector<CollectiveArgs> batch);

  /// Throws NotSupportedError ("Backend fake does not support gather") for what it does not offer,
  /// UsageError for arguments that make no sense.
  void check(const CollectiveArgs& args) const {
    if (!capabilities_.ops.has(args.type)) [[unlikely]] {
      refuse(methodName(args.type));
    }
    args.validate(rank_, size_);
  }

  /// Starts an operation that check() let pass, and returns its Work, never null. Waits for a peer
  /// only if !args.asyncOp.
  virtual WorkPtr start(CollectiveArgs&& args) = 0;
  /// The same for a batch. Called only if capabilities().coalescing.
  virtual WorkPtr startCoalesced(std::vector<CollectiveArgs> batch);

  /// Returns when all ranks have called it; on rank 0 the error says which have not.
  virtual void monitoredBarrier(const BarrierOptions& opts = {}, bool waitAllRanks = false);

  /// A backend for `ranks` of this group, in that order; null for who is not among them.
  virtual std::shared_ptr<Backend> split(std::shared_ptr<Store> store,
                                         const std::vector<int>& ranks,
                                         const BackendOptions& options);

  /// Fails all that is under way with `reason`, and all that comes later; waits for no peer.
  virtual void abort(std::exception_ptr reason);
  /// Waits for what is under way, no longer than timeout(), then closes. Throws DistTimeoutError
  /// when that was too short: what was under way has failed then.
  virtual void shutdown();
  /// What is wrong with it, if anything.
  virtual ErrorType error() const;

  /// Memory that operations of this backend handle better than any other: one row of `count`
  /// elements, all 0.
  virtual bool supportsTensorAlloc(Device device) const;
  virtual Tensor allocateTensor(std::int64_t count, DType type);
  /// How many operations have had what this rank gives in such memory, for others to reach it
  /// there.
  virtual std::uint64_t registeredUses() const { return 0; }

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const BackendOptions& options() const noexcept { return options_; }
  /// Of operations that have none of their own.
  std::chrono::milliseconds timeout() const noexcept {
    return std::chrono::milliseconds(timeout_.load(std::memory_order_relaxed));
  }
  virtual void setTimeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeoutOf(const CollectiveArgs& args) const noexcept {
    return args.timeout == kUnsetTimeout ? timeout() : args.timeout;
  }

 protected:
  /// Throws UsageError unless 0 <= rank < size.
  Backend(const BackendParams& params, Capabilities capabilities);

  /// Throws NotSupportedError: "Backend <name> does not support <what>".
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  const int rank_;
  const int size_;
  const Capabilities capabilities_;
  const BackendOptions options_;
  std::atomic<std::int64_t> timeout_;  // ms; just a number, orders nothing
};

}  // namespace unisono
