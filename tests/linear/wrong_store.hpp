// WrongStore: a store with one fault, of the kind that real stores have had.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "unisono/store/store.hpp"

namespace unisono::linear {

enum class Fault : std::uint8_t {
  NONE,
  SET_LOST,
  SET_LATE,  // done only some calls later
  ADD_LOST,  // the sum is told but not kept
  ADD_TWICE,
  ADD_TELLS_OLD,
  GET_STALE,  // the value before the last
  GET_OF_ANOTHER_KEY,
  MULTI_GET_MIXES,  // the first value now, the second stale
  MULTI_SET_HALF,
  MULTI_SET_IN_STEPS,  // the second key only some calls later
  CAS_ALWAYS_SETS,
  CAS_NEVER_SETS,
  CAS_TELLS_EXPECTED,
  CHECK_OF_ONE_KEY,
  CHECK_ALWAYS_TRUE,
  DELETE_KEEPS,
  DELETE_TELLS_TRUE,
  APPEND_LOST,
  APPEND_OVERWRITES,
  PUSH_LOST,
  PUSH_IN_FRONT,
  POP_KEEPS,  // the same element comes twice
  POP_SKIPS,
  LENGTH_OFF_BY_ONE,
  WAIT_ENDS_EARLY,
  WAIT_FOR_ONE_KEY,
  WAIT_MISSES,  // what is there
  COUNT_OFF_BY_ONE,
  COUNT_LATE,  // what was counted the time before
  LIST_WITHOUT_THE_LAST,
  LIST_WITH_DELETED,
};

/// Does as the store it is given, but for every few calls of the kind that has the fault. Calls
/// come one at a time.
class WrongStore : public Store {
 public:
  WrongStore(std::shared_ptr<Store> right, Fault fault) : right_(std::move(right)), fault_(fault) {}

  using Store::append;
  using Store::check;
  using Store::compareSet;
  using Store::queuePush;
  using Store::set;
  void set(std::string_view key, BytesView value) override;
  Bytes get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override;
  bool check(std::span<const std::string> keys) override;
  bool deleteKey(std::string_view key) override;
  void append(std::string_view key, BytesView value) override;
  std::vector<Bytes> multiGet(std::span<const std::string> keys) override;
  void multiSet(std::span<const std::string> keys, std::span<const Bytes> values) override;
  void queuePush(std::string_view key, BytesView value) override;
  Bytes queuePop(std::string_view key, bool block) override;
  std::int64_t queueLen(std::string_view key) override;

  using Store::wait;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  std::int64_t numKeys() override;
  std::vector<std::string> listKeys() override;
  std::shared_ptr<Store> clone() override { return nullptr; }

 private:
  /// Whether this call is one of those that go wrong with `fault`.
  bool strikes(Fault fault);
  void doLater(std::function<void()> action);
  void doLate();
  void remember(std::string_view key);

  const std::shared_ptr<Store> right_;
  const Fault fault_;
  int calls_ = 0;
  std::int64_t count_ = 0;                           // what numKeys() told last
  std::map<std::string, Bytes, std::less<>> stale_;  // the values before the last
  std::function<void()> late_;
  int callsUntilLate_ = 0;
};

}  // namespace unisono::linear
