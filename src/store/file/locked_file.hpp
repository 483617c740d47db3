// LockedFile: the file under a FileStore, opened with care and written whole or not at all.
//
// The lock is flock, which PyTorch's FileStore takes too. It belongs to this open file, so that
// two objects of one process exclude each other as two processes do; it ends with the process.
//
// Thread safety: none; the owner serialises. Errors: DistStoreError, CONFIG for a path that can
// never be a store, RESOURCE when the system refuses (disk full, descriptors, I/O).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.hpp"

namespace unisono {

enum class LockMode : std::uint8_t { SHARED, EXCLUSIVE };

class LockedFile {
 public:
  /// Opens the file at `path` (absolute), or makes it with mode 0600. It must be a regular file,
  /// not reached through a link, of this user.
  explicit LockedFile(std::string path);

  /// Opens the path anew: what is there now, which may be another file.
  void reopen();

  /// One try, without waiting.
  bool tryLock(LockMode mode);
  void unlock() noexcept;

  struct Shape {
    bool inPlace = false;  // the path still leads to this file
    std::uint64_t size = 0;
    std::chrono::seconds age{0};  // since it was last written
  };
  Shape look() const;

  /// The bytes from `offset` on, at most `most`; fewer when the file ends before.
  std::string read(std::uint64_t offset, std::uint64_t most) const;

  /// Writes `bytes` behind the first `end` ones with one call. If not all of them find room, the
  /// file is as before.
  void append(std::uint64_t end, std::string_view bytes);

  /// Keeps only the first `size` bytes.
  void cut(std::uint64_t size);

  /// Removes the file from its folder.
  void remove();

  /// "process 4711" when the kernel shows who holds the lock, or "another process".
  std::string lockHolder() const;

  const std::string& path() const noexcept { return path_; }

 private:
  [[noreturn]] void fail(std::string_view doing, int error) const;

  std::string path_;
  UniqueFd fd_;
};

/// The lock, if it could be had, for as long as this lives.
class FileLock {
 public:
  FileLock(LockedFile& file, LockMode mode) : file_(file), held_(file.tryLock(mode)) {}
  ~FileLock() {
    if (held_) {
      file_.unlock();
    }
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const noexcept { return held_; }

 private:
  LockedFile& file_;
  const bool held_;
};

}  // namespace unisono
