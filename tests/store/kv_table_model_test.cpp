// Thousands of random calls on KvTable, each compared with ReferenceStore.
#include <gmock/gmock.h>
#include <random>

#include "base/str.hpp"
#include "store/kv_table.hpp"
#include "store/reference_store.hpp"

namespace unisono {
namespace {

using test::ReferenceStore;

constexpr int kNames = 6;
constexpr int kIds = 9;
constexpr int kSteps = 6000;

WaitFor waitFor(ReferenceStore::Kind kind) {
  switch (kind) {
    case ReferenceStore::Kind::VALUES:
      return WaitFor::VALUES;
    case ReferenceStore::Kind::POLITE:
      return WaitFor::PRESENCE_POLITELY;
    default:
      return WaitFor::PRESENCE;
  }
}

/// Makes the same random call on both and compares what they say.
class Comparison {
 public:
  explicit Comparison(std::uint32_t seed) : random_(seed) {}

  void step() {
    switch (below(18)) {
      case 0:
      case 1:
        return set();
      case 2:
        return append();
      case 3:
        return multiSet();
      case 4:
        return add();
      case 5:
        return compareSet();
      case 6:
      case 7:
        return remove();
      case 8:
        return below(8) == 0 ? removePrefix() : remove();
      case 9:
      case 10:
        return push();
      case 11:
        return pop();
      case 12:
      case 13:
        return wait();
      case 14:
        return popOrWait();
      case 15:
        return arrive();
      case 16:
        return cancel();
      default:
        return passOn();
    }
  }

  void compareEverything() {
    std::vector<Wake> wakes = table_.takeWakes();
    std::vector<ReferenceStore::Ended> ended;
    for (const Wake& wake : wakes) {
      ended.push_back({wake.id, wake.element, wake.queue});
    }
    ASSERT_EQ(ended, reference_.takeEnded());
    ASSERT_EQ(table_.waitCount(), reference_.waitCount());
    ASSERT_EQ(table_.size(), reference_.values().size());
    const std::vector<std::string_view> listed = table_.keys();
    ASSERT_EQ(listed.size(), reference_.values().size());
    std::size_t at = 0;
    for (const auto& [key, value] : reference_.values()) {
      ASSERT_EQ(listed[at++], key);
      ASSERT_THAT(table_.find(key), testing::Pointee(value));
    }
    for (int i = 0; i < kNames; ++i) {
      const std::string key = nameOf(i);
      const std::string_view view = key;
      ASSERT_EQ(table_.queueLength(key), reference_.queueLength(key));
      ASSERT_EQ(table_.allPresent({&view, 1}), reference_.present(key));
      ASSERT_EQ(table_.allHaveValues({&view, 1}), reference_.get(key).has_value());
    }
  }

  /// Takes everything back, in random order of kinds, and expects nothing to be left.
  void emptyEverything() {
    for (int id = 0; id < kIds; ++id) {
      table_.cancelWait(static_cast<WaitId>(id));
    }
    for (int i = 0; i < kNames; ++i) {
      table_.remove(nameOf(i));
      while (table_.pop(nameOf(i))) {}
    }
    EXPECT_THAT(table_.takeWakes(), testing::IsEmpty());
    EXPECT_EQ(table_.contentBytes(), 0U);
    EXPECT_EQ(table_.waitCount(), 0U);
    EXPECT_EQ(table_.size(), 0U);
  }

 private:
  static std::string nameOf(int i) {
    return std::string(static_cast<std::size_t>(i % 3), 'k') + str(i);
  }
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  std::string name() { return nameOf(below(kNames)); }
  WaitId id() { return static_cast<WaitId>(below(kIds)); }

  std::string value() {
    switch (below(6)) {
      case 0:
        return "";
      case 1:
        return str(below(3));
      case 2:
        return str(" -", below(100), "x");
      case 3:
        return "9223372036854775806";
      case 4:
        return "text";
      default:
        return std::string(static_cast<std::size_t>(below(200)), 'v');
    }
  }

  std::vector<std::string> someNames() {
    std::vector<std::string> names(static_cast<std::size_t>(below(4)));
    std::generate(names.begin(), names.end(), [this] { return name(); });
    return names;
  }
  static std::vector<std::string_view> views(const std::vector<std::string>& texts) {
    return {texts.begin(), texts.end()};
  }

  void set() {
    const std::string key = name();
    const std::string to = value();
    ASSERT_TRUE(table_.set(key, to).isOk());
    reference_.set(key, to);
  }
  void append() {
    const std::string key = name();
    const std::string more = value();
    ASSERT_TRUE(table_.append(key, more).isOk());
    reference_.append(key, more);
  }
  void multiSet() {
    const std::vector<std::string> keys = someNames();
    std::vector<std::string> values;
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const std::string& key : keys) {
      values.push_back(value());
      pairs.emplace_back(key, values.back());
    }
    ASSERT_TRUE(table_.multiSet(views(keys), views(values)).isOk());
    reference_.multiSet(pairs);
  }
  void add() {
    const std::string key = name();
    const std::int64_t delta = below(5) - 2;
    const Result<std::int64_t> sum = table_.add(key, delta);
    const std::optional<std::int64_t> expected = reference_.add(key, delta);
    ASSERT_EQ(sum.isOk(), expected.has_value());
    if (expected) {
      ASSERT_EQ(sum.value(), *expected);
    } else {
      ASSERT_EQ(sum.failure().reason(), Reason::USAGE);
    }
  }
  void compareSet() {
    const std::string key = name();
    const std::string expected = below(2) == 0 ? reference_.get(key).value_or("") : value();
    const std::string desired = value();
    const Result<KvTable::Compared> got = table_.compareSet(key, expected, desired);
    ASSERT_TRUE(got.isOk());
    const ReferenceStore::Compared result{static_cast<int>(got.value().outcome),
                                          std::string(got.value().value)};
    ASSERT_EQ(result, reference_.compareSet(key, expected, desired));
  }
  void remove() {
    const std::string key = name();
    ASSERT_EQ(table_.remove(key), reference_.remove(key));
  }
  void removePrefix() {
    const std::string prefix = below(2) == 0 ? "k" : "kk";
    ASSERT_EQ(table_.removePrefix(prefix), reference_.removePrefix(prefix));
  }
  void push() {
    const std::string key = name();
    const std::string element = value();
    ASSERT_TRUE(table_.push(key, element).isOk());
    reference_.push(key, element);
  }
  void pop() {
    const std::string key = name();
    ASSERT_EQ(table_.pop(key), reference_.pop(key));
  }
  void wait() {
    constexpr ReferenceStore::Kind kKinds[] = {
        ReferenceStore::Kind::VALUES, ReferenceStore::Kind::PRESENCE, ReferenceStore::Kind::POLITE};
    const WaitId who = id();
    const ReferenceStore::Kind kind = kKinds[below(3)];
    const std::vector<std::string> keys = someNames();
    const Result<bool> satisfied = table_.wait(who, views(keys), waitFor(kind));
    ASSERT_TRUE(satisfied.isOk());
    ASSERT_EQ(satisfied.value(), reference_.wait(who, keys, kind));
  }
  void popOrWait() {
    const WaitId who = id();
    const std::string key = name();
    const Result<std::optional<std::string>> element = table_.popOrWait(who, key);
    ASSERT_TRUE(element.isOk());
    ASSERT_EQ(element.value(), reference_.popOrWait(who, key));
  }
  void arrive() {
    const WaitId who = id();
    const std::string key = name();
    const std::int64_t worldSize = below(5) - 1;
    const Result<bool> complete = table_.arrive(who, key, worldSize);
    const std::optional<bool> expected = reference_.arrive(who, key, worldSize);
    ASSERT_EQ(complete.isOk(), expected.has_value());
    if (expected) {
      ASSERT_EQ(complete.value(), *expected);
    }
  }
  void cancel() {
    const WaitId who = id();
    table_.cancelWait(who);
    reference_.cancelWait(who);
  }
  void passOn() {
    const std::string key = name();
    table_.passOn(key);
    reference_.passOn(key);
  }

  std::mt19937 random_;
  KvTable table_;
  ReferenceStore reference_;
};

class KvTableModelTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(KvTableModelTest, AgreesWithTheReferenceOnEveryCallAndLeavesNothingBehind) {
  Comparison comparison(GetParam());

  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(str("step ", step));
    comparison.step();
    comparison.compareEverything();
    if (HasFatalFailure()) {
      return;
    }
  }

  comparison.emptyEverything();
}
INSTANTIATE_TEST_SUITE_P(Seeds, KvTableModelTest, testing::Range(1U, 9U));

}  // namespace
}  // namespace unisono
