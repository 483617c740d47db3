// FakeStore: a store that keeps nothing, for groups that are not real.
//
// A group over a FakeBackend pretends to be one rank of many. Whoever needs a store there gets
// this: what is asked is answered at once, as if all other ranks had done their part.
#pragma once

#include "unisono/store/store.hpp"

namespace unisono {

/// Every key is set, to the empty value; what is written is forgotten, and nothing waits. The
/// operations that Store offers but not every store has (compareSet, append, listKeys, queues)
/// are refused, since no answer to them could be right.
///
/// Thread safety and arguments: as Store.
class UNISONO_API FakeStore final : public Store {
 public:
  using Store::check;
  using Store::set;
  using Store::wait;

  void set(std::string_view key, BytesView value) override;
  /// Empty.
  Bytes get(std::string_view key) override;
  /// `delta`: the sum of one caller.
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  /// True.
  bool deleteKey(std::string_view key) override;
  /// 0, as of a store in which nothing can be found to delete.
  std::int64_t deletePrefix(std::string_view prefix) override;
  /// True.
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  /// 0.
  std::int64_t numKeys() override;
  /// A FakeStore of its own, with the same timeout.
  std::shared_ptr<Store> clone() override;
};

}  // namespace unisono
