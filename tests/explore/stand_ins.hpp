// Stand-ins: what is not explored, but what the explored code calls.
//
// They take the place of the files of the same classes: memory without descriptors, processes that
// are fibers, a monitor without a thread, a waiting policy that does not spin.
#pragma once

#include <map>
#include <string>

#include "unisono/store/store.hpp"

namespace unisono::explore {

/// A store for fibers.
class FiberStore final : public Store {
 public:
  using Store::compareSet;
  using Store::set;
  using Store::wait;
  void set(std::string_view key, BytesView value) override;
  Bytes get(std::string_view key) override;
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  bool deleteKey(std::string_view key) override;
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  std::int64_t numKeys() override { return static_cast<std::int64_t>(values_.size()); }
  StorePtr clone() override { return nullptr; }

 private:
  /// A point of the run, as every message to a server would be.
  void step();
  std::map<std::string, Bytes, std::less<>> values_;
  std::uint32_t* changes_ = nullptr;
};

/// Whether process_vm_readv() works from now on.
void allowReadingPeers(bool allow) noexcept;

/// Closes what the descriptors of killed ranks have left open, and forgets what they offered.
void closeLeftovers();

}  // namespace unisono::explore
