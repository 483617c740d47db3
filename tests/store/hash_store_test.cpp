#include "unisono/store/hash_store.hpp"

#include <functional>
#include <gmock/gmock.h>

#include "store/expect.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// As with TCPStore, whose test is of the same name.
TEST(HashStoreTest, TheLongestKeyPassesAndOneByteMoreIsRefusedByEveryCall) {
  HashStore store;
  const std::string longest(8191, 'k');
  store.set(longest, "v");
  EXPECT_EQ(store.getString(longest), "v");

  const std::string more = longest + "k";
  const std::vector<std::string> keys = {"a", more};
  const std::pair<std::string, std::function<void()>> calls[] = {
      {"set", [&] { store.set(more, "v"); }},
      {"get", [&] { store.get(more); }},
      {"add", [&] { store.add(more, 1); }},
      {"append", [&] { store.append(more, "v"); }},
      {"compare_set", [&] { store.compareSet(more, "", "v"); }},
      {"check", [&] { store.check(keys); }},
      {"wait", [&] { store.wait(keys, 0ms); }},
      {"delete_key", [&] { store.deleteKey(more); }},
      {"delete_prefix", [&] { store.deletePrefix(more); }},
      {"multi_get", [&] { store.multiGet(keys); }},
      {"multi_set", [&] { store.multiSet(keys, std::vector<Bytes>(2)); }},
      {"queue_push", [&] { store.queuePush(more, "v"); }},
      {"queue_pop", [&] { store.queuePop(more); }},
      {"queue_pop", [&] { store.queuePop(more, false); }},
      {"queue_len", [&] { store.queueLen(more); }},
      {"barrier", [&] { store.barrier(more, 2, 0ms); }},
  };
  for (const auto& [name, call] : calls) {
    EXPECT_THAT(textOf(call), AllOf(HasSubstr(name + " of kkk"), HasSubstr("8192"),
                                    HasSubstr("8191"), HasSubstr("[LIMIT]")));
  }
  EXPECT_EQ(store.numKeys(), 1);
}

}  // namespace
}  // namespace unisono
