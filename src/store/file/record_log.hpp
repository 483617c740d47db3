// RecordLog: what the bytes of a FileStore's file mean, without the file.
//
// The file is a sequence of records, PyTorch's format:
//
//   u32 key length, key, u32 value length, value
//
// The last record of a key wins. A key "-name" deletes "name". Keys of users are stored as
// "/" + key; "refcount/" and "cleanup/" count the objects that are on the file and that have
// left it. Records "-unisono1…" are our own: to PyTorch they delete names that nobody uses.
//
//   -unisono1         first in a file that we made; its value tells one life of a file from the
//   next -unisono1/open    somebody opened it (see owners.hpp) -unisono1/close   … and left it
//   -unisono1/batch   the records in the next N bytes are one change: all of them or none
//
// A writer that dies leaves an incomplete last change, which counts as never made. Whatever else
// does not look like records is refused: it may be a file of somebody else.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "store/limits.hpp"

namespace unisono {

/// The largest key (with its "/") and value that we write.
constexpr std::uint64_t kMostKeyBytes = StoreLimits{}.keyBytes;
constexpr std::uint64_t kMostValueBytes = StoreLimits{}.valueBytes;

constexpr std::string_view kHeaderKey = "-unisono1";
constexpr std::string_view kOpenKey = "-unisono1/open";
constexpr std::string_view kCloseKey = "-unisono1/close";
constexpr std::string_view kBatchKey = "-unisono1/batch";
constexpr std::string_view kRefcountKey = "refcount/";
constexpr std::string_view kCleanupKey = "cleanup/";

struct Record {
  std::string key;
  std::string value;
};

/// A value that find() found; nothing when it found none.
inline std::string_view textOf(const std::string* value) noexcept {
  return value == nullptr ? std::string_view() : *value;
}

/// The bytes of one change: the records, marked as belonging together when there are several.
std::string encodeChange(std::span<const Record> records);

class RecordLog {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  /// What became of some bytes. `used` of them are now part of the log.
  struct Progress {
    enum class Stop : std::uint8_t {
      END,   // all of them
      MORE,  // the next record needs `wanted` bytes to be seen at once
      TORN,  // what follows is a change that was never completed
    };
    Stop stop = Stop::END;
    std::uint64_t used = 0;
    std::uint64_t wanted = 0;
  };

  /// Takes in the bytes at offset(). `left` is how many there are up to the end of the file, of
  /// which `bytes` are the first. Fails with PROTOCOL, naming the offset, on anything that is
  /// neither a record nor an incomplete last change; what came before it has been taken in.
  Result<Progress> replay(std::string_view bytes, std::uint64_t left);

  /// How many bytes of the file have been taken in.
  std::uint64_t offset() const noexcept { return offset_; }

  /// What is set now, under the names in the file ("/foo", "refcount/").
  const Values& values() const noexcept { return values_; }
  const std::string* find(std::string_view storedKey) const;

  /// Our own records, oldest first.
  const std::vector<Record>& marks() const noexcept { return marks_; }

 private:
  void apply(std::string_view key, std::string_view value);

  std::uint64_t offset_ = 0;
  Values values_;
  std::vector<Record> marks_;
};

}  // namespace unisono
