// HashStore: a store inside one process, for ranks that are threads, and for tests.
#pragma once

#include <memory>

#include "unisono/store/store.hpp"

namespace unisono {

/// Thread safety, timeouts and errors: as Store. clone() returns the same object.
class UNISONO_API HashStore final : public Store, public std::enable_shared_from_this<HashStore> {
 public:
  HashStore();
  ~HashStore() override;

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
  void barrier(std::string_view key, std::int64_t worldSize,
               std::chrono::milliseconds timeout) override;
  bool hasExtendedApi() const override { return true; }
  std::shared_ptr<Store> clone() override;

 private:
  std::vector<Bytes> waitForValues(std::string_view op, std::span<const std::string> keys);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono
