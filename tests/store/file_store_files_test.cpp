// What a FileStore does when its path holds something else, or its file is tampered with.
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "unisono/store/file_store.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "store/expect.hpp"
#include "store/file/owners.hpp"
#include "support/blocked_call.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using test::reasonOf;
using test::textOf;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void overwrite(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class FileStoreFilesTest : public ::testing::Test {
 protected:
  /// The error of opening `path`, which must come at once.
  std::string refusal() {
    const TimePoint start = systemClock().now();
    std::string text = textOf([&] { FileStore store(path); });
    EXPECT_LT(elapsedSince(start), milliseconds(5000));
    return text;
  }

  const test::TempDir folder;
  std::string path = folder.file("store");
};

TEST_F(FileStoreFilesTest, MakesAFileThatOnlyItsUserCanRead) {
  const mode_t before = ::umask(0);
  FileStore store(path);
  ::umask(before);

  struct stat made {};
  ASSERT_EQ(::stat(path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0600U);
}

TEST_F(FileStoreFilesTest, RefusesWhateverIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("[CONFIG]"), HasSubstr("a FIFO")));

  path = folder.path();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("[CONFIG]"), HasSubstr("a directory")));

  path = "/dev/null";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("[CONFIG]"), HasSubstr("a device")));

  path = folder.file("link");
  fs::create_symlink(folder.file("target"), path);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("[CONFIG]"), HasSubstr("a symbolic link")));
  EXPECT_FALSE(fs::exists(folder.file("target")));
}

TEST_F(FileStoreFilesTest, NamesTheFolderThatIsMissing) {
  path = folder.file("missing/store");

  EXPECT_THAT(refusal(), AllOf(HasSubstr("[CONFIG]"), HasSubstr(folder.file("missing")),
                               HasSubstr("does not exist")));
}

TEST_F(FileStoreFilesTest, RefusesAPathThatLeadsThroughAFile) {
  overwrite(folder.file("file"), "");
  path = folder.file("file/store");

  EXPECT_THAT(refusal(), HasSubstr("[CONFIG]"));
}

TEST_F(FileStoreFilesTest, RefusesAFolderItMayNotWriteTo) {
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const int status = test::runInChild([&] {
    // Root may write anywhere: become somebody else, who may not write here either.
    if (::geteuid() == 0 && (::setegid(65534) != 0 || ::seteuid(65534) != 0)) {
      return false;
    }
    return textOf([&] { FileStore store(path); }).find("[CONFIG]") != std::string::npos;
  });
  fs::permissions(folder.path(), fs::perms::owner_all);

  EXPECT_EQ(status, 0);
}

TEST_F(FileStoreFilesTest, RefusesAFileOfAnotherUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  overwrite(path, "");
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);

  EXPECT_THAT(refusal(), AllOf(HasSubstr("[CONFIG]"), HasSubstr("user 65534")));
}

TEST_F(FileStoreFilesTest, RefusesAnEmptyPath) {
  EXPECT_THROW(FileStore(""), UsageError);
  EXPECT_THROW(FileStore(std::string("a\0b", 3)), UsageError);
}

TEST_F(FileStoreFilesTest, RefusesForeignFilesAndLeavesThemUntouched) {
  SeededRng rng(7);
  std::string noise(3000, '\0');
  for (char& c : noise) {
    c = static_cast<char>(rng.next());
  }
  for (const std::string& foreign : {std::string("[section]\nname = value\n"), std::string("x"),
                                     std::string(100, '\0'), std::string(1 << 20, 'a'), noise}) {
    overwrite(path, foreign);

    EXPECT_THAT(refusal(), AllOf(HasSubstr("[PROTOCOL]"), HasSubstr("at offset 0")));

    EXPECT_EQ(contents(path), foreign);
  }
}

TEST_F(FileStoreFilesTest, RefusesAHugeForeignFileWithoutReadingIt) {
  overwrite(path, "not a store");
  fs::resize_file(path, std::uintmax_t{1} << 40);

  EXPECT_THAT(refusal(), HasSubstr("[PROTOCOL]"));
}

TEST_F(FileStoreFilesTest, TakesAnEmptyFileForANewOne) {
  overwrite(path, "");

  FileStore store(path);
  store.set("k", "v");

  EXPECT_EQ(store.getString("k"), "v");
}

TEST_F(FileStoreFilesTest, RefusesAFileDamagedInTheMiddleAndNamesTheOffset) {
  FileStore store(path);
  const auto offset = contents(path).size();
  store.set("a", "1");
  store.set("b", "2");
  std::string damaged = contents(path);
  damaged[offset + 3] = '\x7f';
  overwrite(path, damaged);

  EXPECT_THAT(refusal(), AllOf(HasSubstr("[PROTOCOL]"), HasSubstr(str("at offset ", offset))));

  EXPECT_EQ(contents(path), damaged);
}

TEST_F(FileStoreFilesTest, OpensAFileCutAtAnyByteWithoutItsIncompleteEnd) {
  const FileStore keepsItAlive(path);
  const std::size_t entered = contents(path).size();
  {
    FileStore writer(path);
    writer.set("a", "1");
    writer.multiSet(std::vector<std::string>{"b", "c"}, std::vector<Bytes>{Bytes{'2'}, Bytes{'3'}});
  }
  const std::string whole = contents(path);
  path = folder.file("copy");

  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    fs::remove(path);  // some file systems are slow to overwrite in place
    overwrite(path, std::string_view(whole).substr(0, cut));
    if (cut > 0 && cut < 4) {
      EXPECT_THAT(refusal(), HasSubstr("[PROTOCOL]")) << "may be anybody's";
      continue;
    }
    FileStore store(path);
    EXPECT_EQ(store.check({"b"}), store.check({"c"})) << "half of a multiSet, cut at " << cut;
    EXPECT_TRUE(!store.check({"b"}) || store.check({"a"}));
    EXPECT_GE(cut, store.check({"a"}) ? entered : 0);
    store.set("after", "x");
    EXPECT_EQ(FileStore(path).getString("after"), "x");
  }
}

TEST_F(FileStoreFilesTest, SurvivesRandomBytesAtTheEnd) {
  FileStore(path).set("a", "1");
  const std::string good = contents(path);
  SeededRng rng(99);

  for (int round = 0; round < 300; ++round) {
    std::string noisy = good;
    for (std::uint64_t extra = 1 + rng.next() % 20; extra > 0; --extra) {
      noisy += static_cast<char>(rng.next());
    }
    fs::remove(path);
    overwrite(path, noisy);
    try {
      FileStore store(path, -1, milliseconds(1000));
      EXPECT_EQ(store.getString("a"), "1");
    } catch (const DistStoreError& error) {
      EXPECT_EQ(error.reason(), Reason::PROTOCOL) << error.what();
      EXPECT_EQ(contents(path), noisy) << "refused, so not to be touched";
    }
  }
}

TEST_F(FileStoreFilesTest, ReadsPastAnIncompleteEndThatAppearsWhileItIsOpen) {
  FileStore store(path);
  store.set("a", "1");
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string_view("\x04\0\0\0/fo", 7);

  EXPECT_EQ(store.getString("a"), "1");
  EXPECT_FALSE(store.check({"foo"}));
  store.set("b", "2");

  EXPECT_EQ(FileStore(path).getString("b"), "2");
}

TEST_F(FileStoreFilesTest, NoticesThatItsFileWasRemoved) {
  FileStore store(path);
  store.set("a", "1");
  fs::remove(path);

  EXPECT_EQ(reasonOf([&] { store.get("a"); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf([&] { store.set("a", "2"); }), Reason::STORE_LOST);
  EXPECT_EQ(reasonOf([&] { store.wait({"never"}, milliseconds(60'000)); }), Reason::STORE_LOST);

  EXPECT_FALSE(fs::exists(path)) << "and does not silently make a new one";
}

TEST_F(FileStoreFilesTest, NoticesThatItsFileGoesWhileItWaits) {
  for (const auto& damage : std::vector<std::pair<Reason, std::function<void()>>>{
           {Reason::PROTOCOL, [&] { fs::resize_file(path, fs::file_size(path) - 1); }},
           {Reason::STORE_LOST, [&] { fs::remove(path); }}}) {
    FileStore other(path);
    other.set("a", "1");
    test::BlockedCall waiting(
        [&] { return reasonOf([&] { other.wait({"never"}, milliseconds(60'000)); }); });

    damage.second();

    EXPECT_EQ(waiting.result(), damage.first);
    fs::remove(path);
  }
}

TEST_F(FileStoreFilesTest, NoticesThatItsFileWasReplaced) {
  FileStore store(path);
  overwrite(folder.file("other"), contents(path));
  fs::rename(folder.file("other"), path);
  const std::string other = contents(path);

  EXPECT_EQ(reasonOf([&] { store.set("a", "1"); }), Reason::STORE_LOST);

  EXPECT_EQ(contents(path), other);
}

TEST_F(FileStoreFilesTest, NoticesThatItsFileWasCut) {
  FileStore store(path);
  store.set("a", "1");
  fs::resize_file(path, fs::file_size(path) - 1);

  EXPECT_EQ(reasonOf([&] { store.check({"a"}); }), Reason::PROTOCOL);
  fs::resize_file(path, fs::file_size(path) + 100);
  EXPECT_EQ(reasonOf([&] { store.check({"a"}); }), Reason::PROTOCOL) << "and remembers it";
}

TEST_F(FileStoreFilesTest, NoticesThatItsFileWasBegunAnew) {
  FileStore store(path);
  store.set("a", "1");
  overwrite(path, "");
  {
    FileStore other(path);
    other.set("long enough to be beyond the old end", std::string(1000, 'x'));
  }

  EXPECT_EQ(reasonOf([&] { store.get("a"); }), Reason::STORE_LOST);
}

TEST_F(FileStoreFilesTest, NamesTheHolderOfALockItCannotHave) {
  FileStore store(path);
  store.setTimeout(milliseconds(60));
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);

  EXPECT_THAT(
      textOf([&] { store.set("k", "v"); }),
      AllOf(HasSubstr("timeout after 60ms"), HasSubstr("[TIMEOUT]"),
            AnyOf(HasSubstr(str("held by process ", ::getpid())), HasSubstr("another process"))));
  EXPECT_THAT(textOf([&] { store.get("k"); }), HasSubstr("wait timeout after 60ms, keys: k"));
  ::close(fd);

  store.set("k", "v");
}

// Files left by others

TEST_F(FileStoreFilesTest, JoinsAFileOfPyTorch) {
  const std::vector<Record> refcount{{"refcount/", "1"}};
  const std::vector<Record> user{{"/k", "v"}};
  overwrite(path, encodeChange(refcount) + encodeChange(user));
  const test::LogCapture log;

  FileStore store(path, 2);

  EXPECT_EQ(store.getString("k"), "v");
  EXPECT_EQ(store.numKeys(), 2);
  EXPECT_THAT(log.lines(), ::testing::IsEmpty());
}

TEST_F(FileStoreFilesTest, WarnsWhenItJoinsAnOldFileOfUnknownUsers) {
  const std::vector<Record> refcount{{"refcount/", "1"}};
  overwrite(path, encodeChange(refcount));
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(3));
  const test::LogCapture log;

  FileStore store(path);

  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_THAT(log.lines()[0], AllOf(HasSubstr(path), HasSubstr("180 minutes")));
}

TEST_F(FileStoreFilesTest, JoinsAFileOpenedOnAnotherHost) {
  ProcessMark elsewhere = thisProcess();
  elsewhere.boot = "another-boot";
  elsewhere.host = "another-host";
  const std::vector<Record> all{openRecord("1", elsewhere), {"refcount/", "1"}, {"/k", "v"}};
  overwrite(path, encodeChange(all));

  EXPECT_EQ(FileStore(path).getString("k"), "v");
}

TEST_F(FileStoreFilesTest, ReclaimsAFileFromBeforeTheLastBoot) {
  ProcessMark before = thisProcess();
  before.boot = "another-boot";
  const std::vector<Record> all{openRecord("1", before), {"refcount/", "1"}, {"/k", "stale"}};
  overwrite(path, encodeChange(all));

  FileStore store(path);

  EXPECT_FALSE(store.check({"k"}));
  EXPECT_EQ(store.numKeys(), 1);
}

}  // namespace
}  // namespace unisono
