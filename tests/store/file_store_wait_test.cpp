// How a FileStore's calls wait, give up, and end.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <gmock/gmock.h>

#include "unisono/store/file_store.hpp"

#include "base/clock.hpp"
#include "base/wait.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::reasonOf;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FileStoreWaitTest : public ::testing::Test {
 protected:
  const test::TempDir folder;
  const std::string path = folder.file("store");
};

TEST_F(FileStoreWaitTest, WaitsUntilTheKeyIsSet) {
  FileStore store(path);
  auto value = std::async(std::launch::async, [&] { return FileStore(path).getString("k"); });

  store.set("k", "v");

  EXPECT_EQ(value.get(), "v");
}

TEST_F(FileStoreWaitTest, ServesOtherCallsWhileOneWaits) {
  FileStore store(path);
  auto value = std::async(std::launch::async, [&] { return store.getString("late"); });
  for (int i = 0; i < 100; ++i) {
    store.add("n", 1);
  }

  store.set("late", "v");

  EXPECT_EQ(value.get(), "v");
}

TEST_F(FileStoreWaitTest, GivesUpAfterItsTimeoutAndNamesTheKey) {
  FileStore store(path);
  store.setTimeout(milliseconds(50));

  EXPECT_THAT(textOf([&] { store.get("absent"); }),
              AllOf(HasSubstr("wait timeout after 50ms, keys: absent"), HasSubstr("[TIMEOUT]")));
}

TEST_F(FileStoreWaitTest, HonoursTimeoutsShorterThanASecond) {
  FileStore store(path);
  milliseconds shortest = hours(1);

  // The shortest of some: a busy host may delay any one of them.
  for (int i = 0; i < 5; ++i) {
    const TimePoint start = systemClock().now();
    EXPECT_EQ(reasonOf([&] { store.wait({"absent"}, milliseconds(50)); }), Reason::TIMEOUT);
    shortest = std::min(shortest, elapsedSince(start));
  }

  EXPECT_GE(shortest, milliseconds(50));
  EXPECT_LT(shortest, milliseconds(500));
}

TEST_F(FileStoreWaitTest, GivesAllKeysTogetherOneTimeoutAndNamesThoseMissing) {
  FileStore store(path);
  store.set("here", "v");
  store.setTimeout(milliseconds(500));
  const std::vector<std::string> keys{"a", "here", "b", "c", "d", "e", "f", "g", "h"};
  const TimePoint start = systemClock().now();

  EXPECT_THAT(textOf([&] { store.multiGet(keys); }), HasSubstr(": a, b, c, d, e, f, g, h."));

  EXPECT_LT(elapsedSince(start), milliseconds(8 * 500));
}

TEST_F(FileStoreWaitTest, LooksOnceWhenTheTimeoutIsZero) {
  FileStore store(path);
  store.set("k", "v");
  store.setTimeout(milliseconds(0));

  EXPECT_EQ(store.getString("k"), "v");
  store.wait({"k"}, milliseconds(0));
  EXPECT_EQ(reasonOf([&] { store.get("absent"); }), Reason::TIMEOUT);
  store.set("other", "v");
}

TEST_F(FileStoreWaitTest, RefusesNegativeTimeouts) {
  FileStore store(path);

  EXPECT_THROW(store.setTimeout(milliseconds(-1)), UsageError);
  EXPECT_THROW(store.wait({"k"}, milliseconds(-1)), UsageError);
  EXPECT_THROW(FileStore(folder.file("new"), -1, milliseconds(-1)), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder.file("new")));
}

TEST_F(FileStoreWaitTest, TakesTimeoutsOfAMonth) {
  FileStore store(path);
  store.setTimeout(hours(24 * 30));
  auto value = std::async(std::launch::async, [&] { return store.getString("k"); });

  store.set("k", "v");

  EXPECT_EQ(value.get(), "v");
}

TEST_F(FileStoreWaitTest, WaitsForSeveralKeysUntilAllAreThereAtOneMoment) {
  FileStore store(path);
  FileStore other(path);
  std::atomic<bool> released{false};
  auto waiting = std::async(std::launch::async, [&] {
    other.wait({"a", "b"}, milliseconds(60'000));
    released = true;
  });

  store.set("a", "1");
  EXPECT_TRUE(store.deleteKey("a"));
  store.set("b", "1");
  EXPECT_FALSE(released);
  store.set("a", "2");

  waiting.get();
  store.wait({}, milliseconds(0));
}

TEST_F(FileStoreWaitTest, EndsTheCallsInsideItWhenItIsDestroyed) {
  const test::ScopedEnv notice("UNISONO_HANG_WARN", "0.001");
  const test::LogCapture log;
  auto store = std::make_unique<FileStore>(path);
  auto reason = std::async(std::launch::async, [&] {
    return reasonOf([&] { store->wait({"never"}, milliseconds(60'000)); });
  });
  // The notice of the wait tells that the call is inside.
  TimerWaitable timer(milliseconds(1));
  ASSERT_TRUE(waitUntil([&] { return !log.lines().empty(); },
                        {.deadline = Deadline::after(milliseconds(30'000)), .subject = {}}, timer));

  store.reset();

  EXPECT_EQ(reason.get(), Reason::SHUTDOWN);
}

}  // namespace
}  // namespace unisono
