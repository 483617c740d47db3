// A FileStore between processes: shared, killed, forked, and short of disk space.
#include <filesystem>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "unisono/store/file_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using std::chrono::milliseconds;
using test::Child;
using test::reasonOf;

class FileStoreProcessTest : public ::testing::Test {
 protected:
  const test::TempDir folder;
  const std::string path = folder.file("store");
};

TEST_F(FileStoreProcessTest, AddsUpWhatTwoProcessesAddAtTheSameTime) {
  FileStore store(path);
  const auto adder = [&](const Child::Tell& tell) {
    FileStore own(path);
    own.add("ready", 1);
    own.get("go");
    for (int i = 0; i < 500; ++i) {
      own.add("sum", 1);
    }
    tell();
  };
  Child first(adder);
  Child second(adder);

  store.set("go", "");

  ASSERT_TRUE(first.awaitWord());
  ASSERT_TRUE(second.awaitWord());
  EXPECT_EQ(store.getString("sum"), "1000");
}

TEST_F(FileStoreProcessTest, PassesKeysBetweenProcessesInBothDirections) {
  Child child([&](const Child::Tell&) {
    FileStore own(path);
    own.set("pong", own.getString("ping") + "!");
  });
  FileStore store(path);

  store.set("ping", "hello");

  EXPECT_EQ(store.getString("pong"), "hello!");
}

TEST_F(FileStoreProcessTest, ReclaimsTheFileOfProcessesThatWereKilled) {
  for (int round = 0; round < 3; ++round) {
    Child one([&](const Child::Tell& tell) {
      FileStore own(path, 2);
      own.set("stale", "value");
      tell();
      ::pause();
    });
    ASSERT_TRUE(one.awaitWord());
    Child two([&](const Child::Tell& tell) {
      FileStore own(path, 2);
      own.set("seen", own.getString("stale"));
      tell();
      ::pause();
    });
    ASSERT_TRUE(two.awaitWord());
  }

  FileStore store(path, 2);

  EXPECT_FALSE(store.check({"stale"}));
  EXPECT_EQ(store.numKeys(), 1);
}

TEST_F(FileStoreProcessTest, JoinsWhileAnyOpenerLives) {
  Child dead([&](const Child::Tell& tell) {
    FileStore own(path, 2);
    own.set("k", "of the dead");
    tell();
    ::pause();
  });
  ASSERT_TRUE(dead.awaitWord());
  Child alive([&](const Child::Tell& tell) {
    FileStore own(path, 2);
    tell();
    ::pause();
  });
  ASSERT_TRUE(alive.awaitWord());
  dead.kill();

  EXPECT_EQ(FileStore(path, 2).getString("k"), "of the dead");

  alive.kill();
  // This process has opened it meanwhile, and lives.
  EXPECT_EQ(FileStore(path, 2).getString("k"), "of the dead");
}

TEST_F(FileStoreProcessTest, ShowsAWriterKilledAtAnyMomentAsHavingWrittenAllOrNothing) {
  FileStore store(path);
  store.set("a", "0");
  store.set("b", "0");
  for (int round = 1; round <= 20; ++round) {
    Child writer([&](const Child::Tell& tell) {
      FileStore own(path);
      const std::vector<std::string> keys{"a", "b"};
      // Large enough for the kill to come in the middle of a write.
      for (int i = 0;; ++i) {
        const std::string value = str(round, "/", i, std::string(300'000, 'x'));
        const std::vector<Bytes> values(2, Bytes(value.begin(), value.end()));
        own.multiSet(keys, values);
        if (i == round % 3) {
          tell();
        }
        if (i == 5) {
          ::pause();
        }
      }
    });
    ASSERT_TRUE(writer.awaitWord());
    writer.kill();

    const std::vector<Bytes> values = store.multiGet(std::vector<std::string>{"a", "b"});
    ASSERT_EQ(values[0], values[1]);
    store.set("after", "x");
  }
}

TEST_F(FileStoreProcessTest, ReleasesTheLockOfAKilledProcess) {
  FileStore store(path);
  for (int round = 0; round < 10; ++round) {
    Child busy([&](const Child::Tell& tell) {
      FileStore own(path);
      tell();
      while (true) {
        own.add("n", 1);
      }
    });
    ASSERT_TRUE(busy.awaitWord());
    busy.kill();

    store.setTimeout(milliseconds(5000));
    EXPECT_GE(store.add("n", 1), 1);
  }
}

TEST_F(FileStoreProcessTest, IsInertInAForkedChild) {
  auto store = std::make_unique<FileStore>(path, 1);
  store->set("k", "v");

  const int status = test::runInChild([&] {
    const auto forked = [](auto call) { return reasonOf<UsageError>(call) == Reason::FORKED; };
    const bool inert = forked([&] { store->get("k"); }) && forked([&] { store->set("k", "x"); }) &&
                       forked([&] { store->clone(); });
    store.reset();
    FileStore own(path);
    return inert && own.getString("k") == "v" && own.numKeys() == 2;
  });

  EXPECT_EQ(status, 0);
  EXPECT_EQ(store->getString("k"), "v") << "the child's destructor does not count out the parent";
  store.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// Fills `store` until it refuses, and tells whether it refused cleanly.
bool refusesCleanlyWhenFull(FileStore& store, const std::string& path) {
  store.set("first", "1");
  const std::string large(5000, 'x');
  for (int i = 0; i < 1000; ++i) {
    const auto size = std::filesystem::file_size(path);
    try {
      store.set("large", large);
    } catch (const DistStoreError& error) {
      return error.reason() == Reason::RESOURCE && std::filesystem::file_size(path) == size &&
             store.getString("first") == "1" && FileStore(path).getString("first") == "1";
    }
  }
  return false;
}

TEST_F(FileStoreProcessTest, ChangesNothingWhenTheFileMayNotGrow) {
  const int status = test::runInChild([&] {
    FileStore store(path);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 64'000, .rlim_max = 64'000};
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0 && refusesCleanlyWhenFull(store, path);
  });

  EXPECT_EQ(status, 0);
}

TEST_F(FileStoreProcessTest, ChangesNothingWhenTheDiskIsFull) {
  constexpr int kNotPermitted = 77;
  const int status = test::runInChild([&] {
    // A disk of our own, seen by this child alone.
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tiny", folder.path().c_str(), "tmpfs", 0, "size=128k") != 0) {
      ::_exit(kNotPermitted);
    }
    FileStore store(path);
    return refusesCleanlyWhenFull(store, path);
  });

  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted) {
    GTEST_SKIP() << "no permission to mount";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace unisono
