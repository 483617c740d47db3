#include "store/file/locked_file.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono {
namespace {

[[noreturn]] void refusePath(const std::string& path, std::string_view why) {
  throw DistStoreError({.reason = Reason::CONFIG,
                        .what = str("FileStore cannot use ", path, ": ", why),
                        .hint = "give the path of a file of your own in a folder that exists"});
}

/// Calls `call` until it is not a signal that ended it.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

std::string_view kindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

void checkKind(const std::string& path, const struct stat& found) {
  if (!S_ISREG(found.st_mode)) {
    refusePath(path, str("it is ", kindOf(found.st_mode), ", not a regular file"));
  }
  if (found.st_uid != ::geteuid()) {
    refusePath(path, str("it belongs to user ", found.st_uid, ", but this process runs as user ",
                         ::geteuid()));
  }
}

/// Why opening failed, told apart: settings that can never work, and a system that refuses.
[[noreturn]] void refuseOpen(const std::string& path, int error) {
  switch (error) {
    case ENOENT: {
      const std::string folder = std::filesystem::path(path).parent_path().string();
      refusePath(path, str("the folder ", folder, " does not exist (No such file or directory)"));
    }
    case ELOOP:
      refusePath(path, "it is a symbolic link, not a regular file");
    case EISDIR:
    case ENOTDIR:
    case ENXIO:
    case ENAMETOOLONG:
    case EINVAL:
    case EACCES:
    case EPERM:
      refusePath(path, errnoText(error));
    default:
      throw DistStoreError({.reason = Reason::RESOURCE,
                            .what = str("FileStore cannot open ", path, ": ", errnoText(error)),
                            .hint = "check its disk, and the limit of open files: ulimit -n"});
  }
}

UniqueFd openFile(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) {
    checkKind(path, found);  // before opening: to open a device may already do something
  }
  const int fd = uninterrupted([&] {
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
                  S_IRUSR | S_IWUSR);
  });
  if (fd < 0) {
    refuseOpen(path, errno);
  }
  UniqueFd owned(fd);
  if (::fstat(fd, &found) != 0) {
    refuseOpen(path, errno);
  }
  checkKind(path, found);
  return owned;
}

}  // namespace

LockedFile::LockedFile(std::string path) : path_(std::move(path)), fd_(openFile(path_)) {}

void LockedFile::reopen() {
  fd_ = openFile(path_);
}

void LockedFile::fail(std::string_view doing, int error) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw DistStoreError({.reason = Reason::RESOURCE,
                        .what = str("FileStore cannot ", doing, " ", path_, ": ", errnoText(error)),
                        .hint = full ? "make room on the disk, or raise the quota" : ""});
}

bool LockedFile::tryLock(LockMode mode) {
  const int operation = (mode == LockMode::EXCLUSIVE ? LOCK_EX : LOCK_SH) | LOCK_NB;
  if (uninterrupted([&] { return ::flock(fd_.get(), operation); }) == 0) {
    return true;
  }
  if (errno != EWOULDBLOCK) {
    fail("lock", errno);
  }
  return false;
}

void LockedFile::unlock() noexcept {
  static_cast<void>(uninterrupted([&] { return ::flock(fd_.get(), LOCK_UN); }));
}

LockedFile::Shape LockedFile::look() const {
  struct stat open {};
  if (::fstat(fd_.get(), &open) != 0) {
    fail("look at", errno);
  }
  struct stat named {};
  const bool found = ::lstat(path_.c_str(), &named) == 0;
  return {
      .inPlace = found && named.st_dev == open.st_dev && named.st_ino == open.st_ino,
      .size = static_cast<std::uint64_t>(open.st_size),
      .age = std::chrono::seconds(std::max<std::int64_t>(std::time(nullptr) - open.st_mtime, 0))};
}

std::string LockedFile::read(std::uint64_t offset, std::uint64_t most) const {
  std::string bytes(most, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = uninterrupted([&] {
      return ::pread(fd_.get(), bytes.data() + have, bytes.size() - have,
                     static_cast<off_t>(offset + have));
    });
    if (got < 0) {
      fail("read", errno);
    }
    if (got == 0) {
      break;
    }
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

void LockedFile::append(std::uint64_t end, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = uninterrupted([&] {
      return ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done,
                      static_cast<off_t>(end + done));
    });
    if (wrote < 0) {
      const int error = errno;
      // If even this fails, the next to take the lock cuts the incomplete change off.
      static_cast<void>(
          uninterrupted([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(end)); }));
      fail("write to", error);
    }
    done += static_cast<std::size_t>(wrote);
  }
}

void LockedFile::cut(std::uint64_t size) {
  if (uninterrupted([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size)); }) != 0) {
    fail("shorten", errno);
  }
}

void LockedFile::remove() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    fail("remove", errno);
  }
}

std::string LockedFile::lockHolder() const {
  struct stat open {};
  if (::fstat(fd_.get(), &open) == 0) {
    // "7: FLOCK  ADVISORY  WRITE 4711 fd:01:131090 0 EOF"; those who wait have "->" second.
    const std::string inode = str(":", open.st_ino);
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
      std::istringstream fields(line);
      std::string number, kind, advisory, mode, pid, place;
      fields >> number >> kind >> advisory >> mode >> pid >> place;
      if (kind == "FLOCK" && place.ends_with(inode) && pid.find_first_not_of("0-") == 0) {
        return str("process ", pid);
      }
    }
  }
  return "another process";
}

}  // namespace unisono
