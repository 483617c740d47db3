// What every store promises of keys and values. Waiting, queues and the life of a store have
// files of their own beside this one.
#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <limits>
#include <thread>

#include "unisono/base/error.hpp"
#include "unisono/store/prefix_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/bounds.hpp"
#include "support/store_kinds.hpp"

namespace unisono {
namespace {

using test::reasonOf;
using test::storeKinds;
using test::textOf;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using namespace std::chrono_literals;
using namespace std::string_literals;

using StoreConformanceTest = test::StoreTest;
INSTANTIATE_TEST_SUITE_P(AllStores, StoreConformanceTest, ::testing::ValuesIn(storeKinds()),
                         test::kindName);

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

/// Runs `body(i)` on `count` threads at once.
template <typename Body>
void onThreads(int count, Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&body, i] { body(i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// The base scenario of PyTorch's tests of its stores.
TEST_P(StoreConformanceTest, AddsSetsGetsChecksAndCounts) {
  store.add("key", 1);
  store.add("key", 2);
  store.add("key", 3);
  store.set("key0", "value0");
  for (int i = 1; i <= 6; ++i) {
    store.add("key3", i);
  }
  store.set("key1", "value1");
  store.set("key2", "value2");

  EXPECT_EQ(store.numKeys(), 5 + kind().ownKeys);
  EXPECT_EQ(store.getString("key"), "6");
  EXPECT_EQ(store.getString("key0"), "value0");
  EXPECT_EQ(store.getString("key1"), "value1");
  EXPECT_EQ(store.getString("key2"), "value2");
  EXPECT_EQ(store.getString("key3"), "21");
  EXPECT_TRUE(store.check({"key3"}));
  EXPECT_FALSE(store.check({"Randomkey3"}));

  store.set("-key3", "7");
  EXPECT_EQ(store.getString("-key3"), "7");
  EXPECT_EQ(store.numKeys(), 6 + kind().ownKeys);
  EXPECT_TRUE(store.deleteKey("-key3"));
  EXPECT_EQ(store.numKeys(), 5 + kind().ownKeys);
  EXPECT_EQ(store.getString("key3"), "21");
}

TEST_P(StoreConformanceTest, KeepsTheLastValueSet) {
  for (int i = 0; i < 100; ++i) {
    store.set("key", str("value ", i));
    ASSERT_EQ(store.getString("key"), str("value ", i));
  }

  EXPECT_EQ(store.numKeys(), 1 + kind().ownKeys);
}

TEST_P(StoreConformanceTest, TakesAnyBytesAsKeysAndValues) {
  const std::vector<std::string> names = {
      "",         "\0"s,  "a\0b"s,    "a\nb",      "a\r\n",     " ",
      "/",        "//x",  "-",        "-/x",       "refcount/", "init/",
      "cleanup/", "%s{}", "\xff\xfe", "k\u00f6ln", "p",         "unisono/capabilities"};
  std::string allBytes;
  for (int i = 0; i < 256; ++i) {
    allBytes.push_back(static_cast<char>(i));
  }
  for (const std::string& name : names) {
    store.set(name, name + allBytes);
  }

  for (const std::string& name : names) {
    EXPECT_EQ(store.getString(name), name + allBytes) << "key: " << name;
    EXPECT_TRUE(store.check({name})) << "key: " << name;
  }
  EXPECT_THAT(store.listKeys(), ::testing::UnorderedElementsAreArray(names));
  EXPECT_EQ(store.numKeys(), static_cast<std::int64_t>(names.size()) + kind().ownKeys);
  for (const std::string& name : names) {
    EXPECT_TRUE(store.deleteKey(name)) << "key: " << name;
  }
  EXPECT_THAT(store.listKeys(), IsEmpty());
  EXPECT_EQ(store.numKeys(), kind().ownKeys);
}

TEST_P(StoreConformanceTest, AnEmptyValueIsAValue) {
  store.set("empty", "");

  EXPECT_TRUE(store.check({"empty"}));
  EXPECT_EQ(store.getString("empty"), "");
  store.wait({"empty"}, 0ms);
  const std::vector<std::string> keys = {"empty"};
  EXPECT_THAT(store.multiGet(keys), ElementsAre(IsEmpty()));
  EXPECT_THAT(store.listKeys(), ElementsAre("empty"));
  EXPECT_TRUE(store.deleteKey("empty"));
  EXPECT_FALSE(store.check({"empty"}));
}

TEST_P(StoreConformanceTest, CarriesValuesOfManySizes) {
  for (const std::size_t size : {1U, 4095U, 4096U, 16'384U, 65'536U, 65'537U, 1'000'000U}) {
    std::string value(size, '\0');
    for (std::size_t i = 0; i < size; ++i) {
      value[i] = static_cast<char>(i * 31 + size);
    }
    store.set("big", value);

    ASSERT_TRUE(store.getString("big") == value) << size << " bytes";
  }
}

TEST_P(StoreConformanceTest, TakesKeysUpToTheLimitAndRefusesToWriteLongerOnes) {
  const std::size_t prefix = kind().keyPrefix.size() - (kind().keyPrefix.starts_with('/') ? 1 : 0);
  const std::string longest(8191 - prefix, 'k');
  const std::string longer = longest + "k";
  const std::vector<std::string> keys = {"k", longer};
  const std::vector<Bytes> values = {bytes("v"), bytes("v")};
  store.set(longest, "v");
  EXPECT_EQ(store.getString(longest), "v");

  EXPECT_EQ(reasonOf([&] { store.set(longer, "v"); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.append(longer, "v"); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.add(longer, 1); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.compareSet(longer, "", "v"); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.multiSet(keys, values); }), Reason::LIMIT);
  if (kind().hasQueues) {
    EXPECT_EQ(reasonOf([&] { store.queuePush(longer, "v"); }), Reason::LIMIT);
  }

  EXPECT_EQ(store.numKeys(), 1 + kind().ownKeys);
}

TEST_P(StoreConformanceTest, RefusesValuesOverTheLimitAndKeepsWhatWasThere) {
  const Bytes longer(8 * 1024 * 1024 + 1, 'v');
  const std::vector<std::string> keys = {"other", "k"};
  const std::vector<Bytes> values = {bytes("v"), longer};
  store.set("k", "v");

  EXPECT_EQ(reasonOf([&] { store.set("k", BytesView(longer)); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.append("k", BytesView(longer)); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.compareSet("k", bytes("v"), longer); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.multiSet(keys, values); }), Reason::LIMIT);
  if (kind().hasQueues) {
    EXPECT_EQ(reasonOf([&] { store.queuePush("k", BytesView(longer)); }), Reason::LIMIT);
  }

  EXPECT_EQ(store.getString("k"), "v");
  EXPECT_FALSE(store.check({"other"}));
}

TEST_P(StoreConformanceTest, ComparesAndSets) {
  EXPECT_EQ(store.compareSet("k", "wrong", "new"), "wrong");
  EXPECT_FALSE(store.check({"k"}));
  EXPECT_EQ(store.numKeys(), kind().ownKeys);

  EXPECT_EQ(store.compareSet("k", "", "first"), "first");
  EXPECT_EQ(store.getString("k"), "first");

  EXPECT_EQ(store.compareSet("k", "wrong", "second"), "first");
  EXPECT_EQ(store.compareSet("k", "", "second"), "first");
  EXPECT_EQ(store.getString("k"), "first");

  EXPECT_EQ(store.compareSet("k", "first", "second"), "second");
  EXPECT_EQ(store.getString("k"), "second");

  EXPECT_EQ(store.compareSet("k", "second", ""), "");
  EXPECT_TRUE(store.check({"k"}));
  EXPECT_EQ(store.compareSet("k", "", "third"), "third") << "an empty value equals empty";
  EXPECT_EQ(store.compareSet("k", "third", "a\0b"s), "a\0b"s);
  EXPECT_EQ(store.compareSet("k", "a", "fourth"), "a\0b"s);
}

TEST_P(StoreConformanceTest, TellsWhoOfSeveralSwapped) {
  const auto swap = [&](std::string_view expected, std::string_view desired) {
    return store.trySwap("k", asBytes(expected), asBytes(desired)).stored;
  };
  // A server of another kind returns the same whoever stored it: then nothing is said.
  const bool told = store.trySwap("probe", {}, asBytes("x")).stored.has_value();

  EXPECT_EQ(swap("wrong", "new"), false);
  EXPECT_EQ(swap("", "same"), told ? std::optional(true) : std::nullopt);
  EXPECT_EQ(swap("", "same"), told ? std::optional(false) : std::nullopt);
  EXPECT_EQ(swap("wrong", "new"), false);
}

TEST_P(StoreConformanceTest, CountsInDecimalText) {
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(store.add("n", -7), -2);
  EXPECT_EQ(store.getString("n"), "-2");
  EXPECT_EQ(store.add("n", 0), -2);
  EXPECT_EQ(store.add("zero", 0), 0);
  EXPECT_EQ(store.getString("zero"), "0");

  store.set("n", "40");
  EXPECT_EQ(store.add("n", 2), 42);
  store.set("n", "");
  EXPECT_EQ(store.add("n", 3), 3) << "an empty value counts as 0";
  store.set("n", " 7abc");
  EXPECT_EQ(store.add("n", 1), 8) << "read as std::stoll reads it";
}

TEST_P(StoreConformanceTest, CountsUpToTheEndsOfInt64) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

  EXPECT_EQ(store.add("up", kMost), kMost);
  EXPECT_EQ(store.add("up", 0), kMost);
  EXPECT_EQ(store.add("down", kLeast), kLeast);
  EXPECT_EQ(store.add("down", kMost), -1);
}

TEST_P(StoreConformanceTest, RefusesToCountWhatIsNoNumberAndGoesOn) {
  const std::vector<std::string> bad = {"text",  "-", "+", "+-1", " ", "9223372036854775808",
                                        "\0001"s};
  for (const std::string& value : bad) {
    store.set("k", value);

    EXPECT_EQ(reasonOf([&] { store.add("k", 1); }), Reason::USAGE) << value;

    EXPECT_EQ(store.getString("k"), value) << "a refused add changes nothing";
  }
  store.set("k", "9223372036854775807");
  EXPECT_THAT(textOf([&] { store.add("k", 1); }),
              AllOf(HasSubstr("overflow"), HasSubstr("DO: keep a counter under a key of its own"),
                    HasSubstr("[USAGE]"), HasSubstr("op=add")));
  EXPECT_EQ(store.getString("k"), "9223372036854775807");
  store.set("k", "-9223372036854775808");
  EXPECT_EQ(reasonOf([&] { store.add("k", -1); }), Reason::USAGE);
  EXPECT_EQ(store.getString("k"), "-9223372036854775808");
  EXPECT_EQ(store.add("other", 1), 1);
}

TEST_P(StoreConformanceTest, RefusesAValueThatIsTooLongAndGoesOn) {
  const std::string longest(8 * 1024 * 1024, 'v');
  const std::string more = longest + "v";
  const auto what = AllOf(ContainsRegex("8388608|8[.0]* MiB"), HasSubstr("[LIMIT]"));
  store.set("k", longest);

  EXPECT_THAT(textOf([&] { store.set("k", more); }), what);
  EXPECT_THAT(textOf([&] { store.append("new", more); }), what);
  EXPECT_THAT(textOf([&] { store.compareSet("new", "", more); }), what);
  EXPECT_THAT(textOf([&] {
                store.multiSet(std::vector<std::string>{"new"}, std::vector<Bytes>{bytes(more)});
              }),
              what);

  EXPECT_TRUE(store.getString("k") == longest);
  EXPECT_FALSE(store.check({"new"}));
  EXPECT_EQ(store.add("other", 1), 1);
}

TEST_P(StoreConformanceTest, RefusesAKeyThatIsTooLongAndGoesOn) {
  const std::string key(8193, 'k');
  const std::vector<std::string> keys = {"there", key};
  const auto refused = [](const std::function<void()>& call) {
    EXPECT_THAT(textOf(call), AllOf(ContainsRegex("819[12]"), HasSubstr("[LIMIT]")));
  };

  refused([&] { store.set(key, "v"); });
  refused([&] { store.add(key, 1); });
  refused([&] { store.append(key, "v"); });
  refused([&] { store.compareSet(key, "", "v"); });
  refused([&] { store.multiSet(keys, std::vector<Bytes>{bytes("1"), bytes("2")}); });

  EXPECT_EQ(store.numKeys(), kind().ownKeys);
  EXPECT_EQ(store.add("other", 1), 1);
}

TEST_P(StoreConformanceTest, Appends) {
  store.set("old", "po");
  store.append("old", "tato");
  store.append("new", "po");
  store.append("new", "tato");

  EXPECT_EQ(store.getString("old"), "potato");
  EXPECT_EQ(store.getString("new"), "potato");
}

TEST_P(StoreConformanceTest, AppendsTheSameValueAsOftenAsTold) {
  store.append("k", "ab");
  store.append("k", "ab");
  store.append("k", "ab");
  store.append("k", "");
  store.append("none", "");

  EXPECT_EQ(store.getString("k"), "ababab");
  EXPECT_EQ(store.getString("none"), "");
}

TEST_P(StoreConformanceTest, DeletesKeys) {
  store.set("k", "v");

  EXPECT_TRUE(store.deleteKey("k"));
  EXPECT_FALSE(store.deleteKey("k"));
  EXPECT_FALSE(store.deleteKey("never"));

  EXPECT_FALSE(store.check({"k"}));
  EXPECT_THAT(store.listKeys(), IsEmpty());
  EXPECT_EQ(store.numKeys(), kind().ownKeys);
  const StoreTimeoutGuard shortly(store, 50ms);
  EXPECT_EQ(reasonOf([&] { store.get("k"); }), Reason::TIMEOUT);
  EXPECT_EQ(store.add("k", 1), 1) << "a deleted key counts from 0";
}

TEST_P(StoreConformanceTest, DeletesAllKeysWithAPrefix) {
  for (const char* name : {"a", "a/1", "a/2", "ab", "b", "\xff", "a\xff"}) {
    store.set(name, "v");
  }

  EXPECT_EQ(store.deletePrefix("a/"), 2);
  EXPECT_EQ(store.deletePrefix("a/"), 0);
  EXPECT_THAT(store.listKeys(), UnorderedElementsAre("a", "ab", "b", "\xff", "a\xff"));
  EXPECT_EQ(store.deletePrefix("a"), 3);
  EXPECT_THAT(store.listKeys(), UnorderedElementsAre("b", "\xff"));
  EXPECT_EQ(store.deletePrefix(""), 2);
  EXPECT_EQ(store.numKeys(), kind().ownKeys) << "the store's own keys stay";
}

TEST_P(StoreConformanceTest, ChecksAllKeysAtOnce) {
  store.set("a", "1");
  store.set("b", "2");

  EXPECT_TRUE(store.check({"a", "b"}));
  EXPECT_TRUE(store.check({"a", "a"}));
  EXPECT_FALSE(store.check({"a", "c", "b"}));
  EXPECT_TRUE(store.check(std::span<const std::string>()));
}

TEST_P(StoreConformanceTest, SetsAndGetsManyInOrder) {
  std::vector<std::string> keys;
  std::vector<Bytes> values;
  for (int i = 0; i < 200; ++i) {
    keys.push_back(str("key ", (i * 77) % 200));
    values.push_back(bytes(str("value ", i)));
  }
  values[7].clear();

  store.multiSet(keys, values);

  EXPECT_EQ(store.multiGet(keys), values);
  std::reverse(keys.begin(), keys.end());
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(store.multiGet(keys), values);
  EXPECT_EQ(store.numKeys(), 200 + kind().ownKeys);
}

TEST_P(StoreConformanceTest, NamingAKeyTwiceIsFine) {
  const std::vector<std::string> keys = {"a", "b", "a"};

  store.multiSet(keys, std::vector<Bytes>{bytes("1"), bytes("2"), bytes("3")});

  EXPECT_THAT(store.multiGet(keys), ElementsAre(bytes("3"), bytes("2"), bytes("3")));
  store.wait({"a", "a"}, 0ms);
}

TEST_P(StoreConformanceTest, NoKeysAreNothingToDo) {
  const std::span<const std::string> none;

  store.multiSet(none, {});
  EXPECT_THAT(store.multiGet(none), IsEmpty());
  store.wait(none);
  store.wait(none, 0ms);
  EXPECT_EQ(store.numKeys(), kind().ownKeys);
}

TEST_P(StoreConformanceTest, RefusesUnequalNumbersOfKeysAndValues) {
  const std::vector<std::string> keys = {"a", "b"};
  const std::vector<Bytes> one = {bytes("1")};

  EXPECT_THAT(textOf<DistStoreError>([&] { store.multiSet(keys, one); }),
              AllOf(HasSubstr("multiSet keys and values vectors must be of same size"),
                    HasSubstr("[USAGE]")));
  EXPECT_THAT(textOf<DistStoreError>([&] { store.multiSet({}, one); }), HasSubstr("same size"));
  EXPECT_FALSE(store.check({"a"}));
}

TEST_P(StoreConformanceTest, ListsTheKeysOfUsers) {
  EXPECT_THAT(store.listKeys(), IsEmpty());
  store.set("a", "1");
  store.add("b/c", 1);
  store.append("d", "x");
  store.compareSet("e", "", "x");

  EXPECT_THAT(store.listKeys(), UnorderedElementsAre("a", "b/c", "d", "e"));
}

TEST_P(StoreConformanceTest, AClientOfTheSameDataSeesAndKeepsIt) {
  store.set("k", "v");
  const StorePtr other = store.clone();

  EXPECT_EQ(other->getString("k"), "v");
  other->set("from the clone", "w");
  EXPECT_EQ(store.getString("from the clone"), "w");
  EXPECT_EQ(other->timeout(), store.timeout());
  other->setTimeout(3s);
  EXPECT_EQ(store.timeout(), kind().cloneIsSelf ? 3s : 20s);
}

TEST_P(StoreConformanceTest, DataOutlivesTheClientThatWroteIt) {
  store.clone()->set("k", "v");

  EXPECT_EQ(store.getString("k"), "v");
}

TEST_P(StoreConformanceTest, DoesTheExtendedOperationsInOneStep) {
  EXPECT_TRUE(store.hasExtendedApi());
}

TEST_P(StoreConformanceTest, APrefixKeepsKeysApart) {
  const StorePtr p = std::make_shared<PrefixStore>("p", made.store);
  const StorePtr pq = std::make_shared<PrefixStore>("pq", made.store);
  store.set("p", "the prefix itself");
  store.set("p/a", "1");
  store.set("px", "2");
  pq->set("a", "3");
  p->set("b", "4");

  EXPECT_THAT(p->listKeys(), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(pq->listKeys(), UnorderedElementsAre("a"));
  EXPECT_EQ(p->getString("a"), "1");
  EXPECT_EQ(store.getString("p/b"), "4");
  EXPECT_EQ(p->deletePrefix(""), 2);
  EXPECT_THAT(store.listKeys(), UnorderedElementsAre("p", "px", "pq/a"));
  EXPECT_EQ(p->timeout(), store.timeout());
}

TEST_P(StoreConformanceTest, CountsRightWhenManyAdd) {
  constexpr int kThreads = 8;
  constexpr int kAdds = 100;
  onThreads(kThreads, [&](int thread) {
    for (int i = 0; i < kAdds; ++i) {
      store.add("shared", 1);
      ASSERT_EQ(store.add(str("own ", thread), 1), i + 1);
    }
  });

  EXPECT_EQ(store.add("shared", 0), kThreads * kAdds);
}

TEST_P(StoreConformanceTest, LosesNothingWhenManyAppend) {
  onThreads(8, [&](int thread) {
    for (int i = 0; i < 50; ++i) {
      store.append("k", std::string(1, static_cast<char>('a' + thread)));
    }
  });

  const std::string all = store.getString("k");
  EXPECT_EQ(all.size(), 8U * 50U);
  for (char letter = 'a'; letter < 'a' + 8; ++letter) {
    EXPECT_EQ(std::count(all.begin(), all.end(), letter), 50) << letter;
  }
}

TEST_P(StoreConformanceTest, LetsOneOfManyWinACompareAndSet) {
  constexpr int kThreads = 8;
  constexpr int kWins = 10;
  store.set("n", "0");
  onThreads(kThreads, [&](int thread) {
    int wins = 0;
    for (int attempt = 0; wins < kWins && attempt < 10'000; ++attempt) {
      const std::string now = store.getString("n");
      const std::string mine = str(std::stoi(now) + 1, " by ", thread);
      wins += store.compareSet("n", now, mine) == mine ? 1 : 0;
    }
    EXPECT_EQ(wins, kWins);
  });

  // A loser that had stored all the same would have set the count back.
  EXPECT_THAT(store.getString("n"), StartsWith(str(kThreads * kWins, " by ")));
}

TEST_P(StoreConformanceTest, SeesItsOwnWritesAtOnceWhateverOthersDo) {
  onThreads(8, [&](int thread) {
    const std::string key = str("own ", thread);
    for (int i = 0; i < 50; ++i) {
      store.set(key, str(i));
      ASSERT_EQ(store.getString(key), str(i));
      store.append(key, "+");
      ASSERT_EQ(store.compareSet(key, str(i, "+"), "done"), "done");
      store.multiSet(std::vector<std::string>{key}, std::vector<Bytes>{bytes("multi")});
      ASSERT_TRUE(store.check({key}));
      ASSERT_TRUE(store.deleteKey(key));
      ASSERT_FALSE(store.check({key}));
    }
  });
}

}  // namespace
}  // namespace unisono
