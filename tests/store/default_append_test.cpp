// What a store appends that has nothing but the operations every store must have.
#include <functional>
#include <gmock/gmock.h>
#include <memory>
#include <utility>

#include "unisono/store/hash_store.hpp"

namespace unisono {
namespace {

/// Leaves append() to the base class, and lets something happen before its first swap.
class PlainStore : public Store {
 public:
  explicit PlainStore(std::function<void(Store&)> meanwhile) : meanwhile_(std::move(meanwhile)) {}

  using Store::append;
  using Store::check;
  using Store::set;
  using Store::wait;
  void set(std::string_view key, BytesView value) override { inner_.set(key, value); }
  Bytes get(std::string_view key) override { return inner_.get(key); }
  std::int64_t add(std::string_view key, std::int64_t by) override { return inner_.add(key, by); }
  bool deleteKey(std::string_view key) override { return inner_.deleteKey(key); }
  bool check(std::span<const std::string> keys) override { return inner_.check(keys); }
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    inner_.wait(keys, timeout);
  }
  std::int64_t numKeys() override { return inner_.numKeys(); }
  std::shared_ptr<Store> clone() override { return nullptr; }
  Swap trySwap(std::string_view key, BytesView expected, BytesView desired) override {
    if (auto meanwhile = std::exchange(meanwhile_, nullptr)) {
      meanwhile(inner_);
    }
    return inner_.trySwap(key, expected, desired);
  }

 private:
  HashStore inner_;
  std::function<void(Store&)> meanwhile_;
};

TEST(DefaultAppendTest, LosesNothingWhenAnotherAppendsTheSameAtTheSameMoment) {
  PlainStore store([](Store& inner) { inner.append("k", "x"); });

  store.append("k", "x");

  EXPECT_EQ(store.getString("k"), "xx");
}

TEST(DefaultAppendTest, GoesOnFromWhatAnotherWroteMeanwhile) {
  PlainStore store([](Store& inner) { inner.set("k", "other"); });

  store.append("k", "x");

  EXPECT_EQ(store.getString("k"), "otherx");
}

TEST(DefaultAppendTest, StartsAnewWhenTheKeyIsDeletedMeanwhile) {
  PlainStore store([](Store& inner) { inner.deleteKey("k"); });
  store.set("k", "old");

  store.append("k", "x");

  EXPECT_EQ(store.getString("k"), "x");
}

}  // namespace
}  // namespace unisono
