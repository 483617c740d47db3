// KvTableTest: what the tests of a KvTable have in common.
#pragma once

#include <cstdint>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.hpp"
#include "store/kv_table.hpp"

namespace unisono {

using Names = std::vector<std::string_view>;

/// A table whose refusals fail the test, and whose wakes read like a list.
class KvTableTest : public testing::Test {
 protected:
  void set(std::string_view key, std::string_view value) {
    ASSERT_TRUE(table.set(key, value).isOk());
  }
  void push(std::string_view name, std::string_view element) {
    ASSERT_TRUE(table.push(name, element).isOk());
  }
  bool wait(WaitId id, const Names& names, WaitFor what = WaitFor::PRESENCE) {
    const Result<bool> satisfied = table.wait(id, names, what);
    EXPECT_TRUE(satisfied.isOk());
    return satisfied.isOk() && satisfied.value();
  }
  bool waitPolitely(WaitId id, const Names& names) {
    return wait(id, names, WaitFor::PRESENCE_POLITELY);
  }
  std::optional<std::string> popOrWait(WaitId id, std::string_view name) {
    return table.popOrWait(id, name).value();
  }
  bool arrive(WaitId id, std::string_view key, std::int64_t worldSize) {
    const Result<bool> complete = table.arrive(id, key, worldSize);
    EXPECT_TRUE(complete.isOk());
    return complete.isOk() && complete.value();
  }

  /// "3" for a plain wake, "3:x" with element x, "3@q" when a push to q ended a polite wait.
  std::vector<std::string> wakes() {
    std::vector<std::string> texts;
    for (const Wake& wake : table.takeWakes()) {
      texts.push_back(str(wake.id, wake.element ? ":" : "", wake.element.value_or(""),
                          wake.queue ? "@" : "", wake.queue.value_or("")));
    }
    return texts;
  }

  KvTable table;
};

}  // namespace unisono
