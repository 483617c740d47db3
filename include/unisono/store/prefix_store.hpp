// PrefixStore: a view of another store in which every key is under a prefix.
#pragma once

#include <string>

#include "unisono/store/store.hpp"

namespace unisono {

/// The key "k" under the prefix "p" is "p/k" in the wrapped store. Prefixes nest; the outermost
/// comes last: PrefixStore("a", PrefixStore("b", s)) keeps "k" as "b/a/k".
///
/// Thread safety, timeouts and errors: those of the wrapped store. The timeout is the wrapped
/// store's own, shared by everybody who uses it. numKeys() counts the whole wrapped store.
class UNISONO_API PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, StorePtr store);
  ~PrefixStore() override;

  using Store::append;
  using Store::barrier;
  using Store::check;
  using Store::compareSet;
  using Store::queuePush;
  using Store::set;
  using Store::wait;

  void set(std::string_view key, BytesView value) override;
  Bytes get(std::string_view key) override;
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override;
  Swap trySwap(std::string_view key, BytesView expected, BytesView desired) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  bool deleteKey(std::string_view key) override;
  std::int64_t deletePrefix(std::string_view prefix) override;
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  std::int64_t numKeys() override;
  std::vector<std::string> listKeys() override;
  void append(std::string_view key, BytesView value) override;
  std::vector<Bytes> multiGet(std::span<const std::string> keys) override;
  void multiSet(std::span<const std::string> keys, std::span<const Bytes> values) override;
  void queuePush(std::string_view key, BytesView value) override;
  Bytes queuePop(std::string_view key, bool block = true) override;
  std::int64_t queueLen(std::string_view key) override;
  bool hasExtendedApi() const override;
  std::string serverHost() const override;
  std::shared_ptr<Store> clone() override;
  std::chrono::milliseconds timeout() const override;
  void setTimeout(std::chrono::milliseconds timeout) override;

  const std::string& prefix() const noexcept { return prefix_; }

  /// The wrapped store, which may be a PrefixStore itself.
  const StorePtr& underlyingStore() const noexcept { return store_; }

  /// The first store below that is not a PrefixStore.
  StorePtr underlyingNonPrefixStore() const;

 private:
  std::string under(std::string_view key) const;
  std::vector<std::string> under(std::span<const std::string> keys) const;

  const std::string prefix_;
  const StorePtr store_;
};

}  // namespace unisono
