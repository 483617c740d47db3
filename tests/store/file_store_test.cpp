#include "unisono/store/file_store.hpp"

#include <filesystem>
#include <future>
#include <gmock/gmock.h>
#include <thread>

#include "base/bytes.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using std::chrono::milliseconds;
using test::reasonOf;
using test::TempDir;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Bytes bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

bool exists(const std::string& path) {
  return std::filesystem::exists(path);
}

class FileStoreTest : public ::testing::Test {
 protected:
  const TempDir folder;
  const std::string path = folder.file("store");
};

// The scenarios of PyTorch's own C++ test of its FileStore.
TEST_F(FileStoreTest, CountsKeysAsPyTorchDoesAndKeepsThemForTheNextObject) {
  {
    FileStore store(path, 2);
    store.set("key0", "value0");
    store.set("key1", "value1");
    store.set("key2", "value2");
    EXPECT_EQ(store.getString("key0"), "value0");
    EXPECT_EQ(store.getString("key1"), "value1");
    EXPECT_EQ(store.getString("key2"), "value2");
    EXPECT_EQ(store.numKeys(), 4);  // and refcount/
    EXPECT_TRUE(store.deleteKey("key0"));
    EXPECT_EQ(store.numKeys(), 3);
    store.set("-key0", "value-");
    EXPECT_EQ(store.getString("-key0"), "value-");
    EXPECT_EQ(store.numKeys(), 4);
    EXPECT_TRUE(store.deleteKey("-key0"));
    EXPECT_EQ(store.numKeys(), 3);
    EXPECT_EQ(store.compareSet("key1", "wrong", "new"), "value1");
    EXPECT_EQ(store.compareSet("key1", "value1", "new"), "new");
  }
  FileStore store(path, 2);

  EXPECT_EQ(store.getString("key1"), "new");
  EXPECT_EQ(store.getString("key2"), "value2");
  EXPECT_EQ(store.numKeys(), 4);  // and refcount/, cleanup/
}

TEST_F(FileStoreTest, AddsUpWhatManyThreadsAddThroughObjectsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      FileStore store(path);
      for (int i = 0; i < 100; ++i) {
        store.add("sum", i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  FileStore store(path);
  EXPECT_EQ(store.getString("sum"), std::to_string(4 * 4950));
}

TEST_F(FileStoreTest, AddsUpWhatManyThreadsAddThroughOneObject) {
  FileStore store(path);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        store.add("sum", i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_EQ(store.add("sum", 0), 4 * 4950);
}

TEST_F(FileStoreTest, KeepsAnyBytesAndTellsEmptyFromMissing) {
  FileStore store(path);
  Bytes all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<std::uint8_t>(i));
  }

  store.set("all", BytesView(all));
  store.set("empty", "");
  store.set(std::string_view("k\0ey", 4), "nul");

  EXPECT_EQ(store.get("all"), all);
  EXPECT_THAT(store.get("empty"), IsEmpty());
  EXPECT_TRUE(store.check({"empty"}));
  EXPECT_FALSE(store.check({"k"}));
}

TEST_F(FileStoreTest, ComparesAndSetsAsPyTorchDoes) {
  FileStore store(path);

  EXPECT_EQ(store.compareSet("k", "something", "new"), "something") << "missing: what was expected";
  EXPECT_FALSE(store.check({"k"}));
  EXPECT_EQ(store.compareSet("k", "", "first"), "first");
  EXPECT_EQ(store.compareSet("k", "wrong", "second"), "first");
  EXPECT_EQ(store.compareSet("k", "first", "second"), "second");
  EXPECT_EQ(store.compareSet("k", "", "third"), "second");
  store.set("empty", "");
  EXPECT_EQ(store.compareSet("empty", "", "full"), "full");
}

TEST_F(FileStoreTest, CountsOnWhateverBeginsLikeANumber) {
  FileStore store(path);
  store.set("blank", " 7abc");
  store.set("empty", "");

  EXPECT_EQ(store.add("missing", -3), -3);
  EXPECT_EQ(store.add("blank", 1), 8);
  EXPECT_EQ(store.add("empty", 4), 4);
  EXPECT_EQ(store.getString("blank"), "8");
}

TEST_F(FileStoreTest, RefusesToCountOnTextOrBeyond64BitsAndChangesNothing) {
  FileStore store(path);
  store.set("text", "abc");
  store.set("most", "9223372036854775807");

  EXPECT_THAT(textOf([&] { store.add("text", 1); }),
              AllOf(HasSubstr("text"), HasSubstr("'abc'"), HasSubstr("[USAGE]")));
  EXPECT_THAT(textOf([&] { store.add("most", 1); }), HasSubstr("overflows"));

  EXPECT_EQ(store.getString("text"), "abc");
  EXPECT_EQ(store.getString("most"), "9223372036854775807");
}

TEST_F(FileStoreTest, AppendsEvenWhatIsThereAlready) {
  FileStore store(path);

  store.append("k", "x");
  store.append("k", "x");
  store.append("k", "");

  EXPECT_EQ(store.getString("k"), "xx");
}

TEST_F(FileStoreTest, TellsTheTruthAboutDeletedKeys) {
  FileStore store(path);
  store.set("k", "v");

  EXPECT_FALSE(store.deleteKey("unknown"));
  EXPECT_TRUE(store.deleteKey("k"));
  EXPECT_FALSE(store.deleteKey("k"));
  EXPECT_EQ(store.numKeys(), 1);
}

TEST_F(FileStoreTest, DeletesByPrefix) {
  FileStore store(path);
  for (const char* key : {"a/1", "a/2", "a", "b/1"}) {
    store.set(key, "v");
  }

  EXPECT_EQ(store.deletePrefix("a/"), 2);
  EXPECT_EQ(store.deletePrefix("nothing"), 0);

  EXPECT_THAT(store.listKeys(), UnorderedElementsAre("a", "b/1"));
}

TEST_F(FileStoreTest, ListsOnlyTheKeysOfUsers) {
  { FileStore gone(path); }
  FileStore store(path);
  store.set("a", "1");
  store.set("-b", "2");

  EXPECT_THAT(store.listKeys(), UnorderedElementsAre("a", "-b"));
  EXPECT_EQ(store.numKeys(), 4);
}

TEST_F(FileStoreTest, SetsAndGetsManyKeysInOrder) {
  FileStore store(path);
  const std::vector<std::string> keys{"b", "a", "c"};
  const std::vector<Bytes> values{bytes("2"), bytes("1"), bytes("3")};

  store.multiSet(keys, values);

  EXPECT_EQ(store.multiGet(keys), values);
  EXPECT_EQ(reasonOf<DistStoreError>([&] { store.multiSet(keys, std::span(values).first(2)); }),
            Reason::USAGE);
}

TEST_F(FileStoreTest, RefusesKeysAndValuesBeyondTheLimitAndWritesNothing) {
  FileStore store(path);
  const std::string longKey(8191, 'k');
  const Bytes large(8 * 1024 * 1024, 1);
  store.set(longKey, BytesView(large));
  const auto size = std::filesystem::file_size(path);

  EXPECT_EQ(reasonOf([&] { store.set(longKey + "k", "v"); }), Reason::LIMIT);
  Bytes larger = large;
  larger.push_back(1);
  EXPECT_EQ(reasonOf([&] { store.set("k", BytesView(larger)); }), Reason::LIMIT);
  EXPECT_EQ(reasonOf([&] { store.append(longKey, "1"); }), Reason::LIMIT);

  EXPECT_EQ(std::filesystem::file_size(path), size);
  EXPECT_EQ(store.get(longKey), large);
}

TEST_F(FileStoreTest, OffersNoQueues) {
  FileStore store(path);

  EXPECT_THROW(store.queuePush("q", "v"), NotSupportedError);
  EXPECT_THROW(store.queuePop("q"), NotSupportedError);
}

TEST_F(FileStoreTest, MeetsAtABarrier) {
  auto other = std::async(std::launch::async, [&] {
    FileStore store(path);
    store.barrier("b", 2, milliseconds(60'000));
  });
  FileStore store(path);

  store.barrier("b", 2, milliseconds(60'000));

  other.get();
  EXPECT_THAT(textOf([&] { store.barrier("lonely", 2, milliseconds(20)); }),
              HasSubstr("timeout after 20ms"));
}

TEST_F(FileStoreTest, ClonesIntoAnObjectThatCountsAndTimesOutByItself) {
  FileStore store(path);
  store.setTimeout(milliseconds(1234));
  store.set("k", "v");

  const StorePtr twin = store.clone();
  twin->setTimeout(milliseconds(10));

  EXPECT_EQ(twin->getString("k"), "v");
  EXPECT_EQ(store.timeout(), milliseconds(1234));
  EXPECT_EQ(store.clone()->timeout(), milliseconds(1234));
}

// Who is on the file, and when it goes

TEST_F(FileStoreTest, RemovesTheFileWithTheLastObjectOnceTheWorldHasBeenThere) {
  for (const int worldSize : {0, 1}) {
    { FileStore store(path, worldSize); }
    EXPECT_FALSE(exists(path)) << worldSize;
  }
  { FileStore store(path, 2); }
  EXPECT_TRUE(exists(path)) << "one of two";
  { FileStore store(path, 2); }
  EXPECT_FALSE(exists(path)) << "also when they lived one after the other";
}

TEST_F(FileStoreTest, LeavesTheFileWhenNoWorldSizeIsGiven) {
  { FileStore store(path); }

  EXPECT_TRUE(exists(path));
}

TEST_F(FileStoreTest, KeepsTheFileWhileAnotherObjectIsOnIt) {
  auto first = std::make_unique<FileStore>(path, 1);
  auto second = std::make_unique<FileStore>(path, 1);

  first.reset();
  EXPECT_TRUE(exists(path));
  EXPECT_EQ(second->numKeys(), 2);
  second.reset();

  EXPECT_FALSE(exists(path));
}

TEST_F(FileStoreTest, CountsClonesAsObjects) {
  auto store = std::make_unique<FileStore>(path, 1);
  StorePtr twin = store->clone();

  store.reset();
  EXPECT_TRUE(exists(path));
  twin.reset();

  EXPECT_FALSE(exists(path));
}

TEST_F(FileStoreTest, StaysOnItsFileWhenTheWorkingFolderChanges) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  FileStore store("store", 1);
  std::filesystem::current_path(before);

  store.set("k", "v");

  EXPECT_EQ(FileStore(path).getString("k"), "v");
  EXPECT_EQ(store.path(), "store");
}

}  // namespace
}  // namespace unisono
