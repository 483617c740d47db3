#include "store/file/record_log.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/bytes.hpp"

namespace unisono {
namespace {

// PyTorch writes keys of any length; beyond this a length is taken for garbage.
constexpr std::uint64_t kMostKeyBytesRead = 1024 * 1024;
constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

using Stop = RecordLog::Progress::Stop;

/// Whether a key can begin with `start`, which is all there is of it if `complete`.
bool isKeyStart(std::string_view start, bool complete) {
  if (start.empty()) {
    return !complete;
  }
  if (start.front() == '/') {
    return true;
  }
  if (start.front() == '-') {
    return !complete || start.size() > 1;
  }
  for (const std::string_view known : {kRefcountKey, kCleanupKey}) {
    if (complete ? start == known : known.starts_with(start)) {
      return true;
    }
  }
  return false;
}

/// What stands at the front of some bytes: a record, or why there is none (yet).
struct Front {
  Stop stop = Stop::END;  // END: a complete record
  std::uint64_t wanted = 0;
  std::string_view key = {};
  std::string_view value = {};
  std::uint64_t size = 0;
};

/// A record needs `wanted` bytes, but fewer are at hand: look again with more, or the file ends.
Front incomplete(std::uint64_t wanted, std::uint64_t left) {
  return {.stop = wanted <= left ? Stop::MORE : Stop::TORN, .wanted = wanted};
}

Status garbage(std::uint64_t offset, std::string_view why) {
  return {Reason::PROTOCOL, str("at offset ", offset, " ", why)};
}

Result<Front> readFront(std::string_view bytes, std::uint64_t left, std::uint64_t offset) {
  ByteReader reader(bytes);
  const auto keySize = reader.number<std::uint32_t>();
  if (!keySize) {
    return incomplete(kLengthBytes, left);
  }
  if (*keySize == 0 || *keySize > kMostKeyBytesRead) {
    return garbage(offset, str("a key of ", *keySize, " bytes is announced"));
  }
  const std::uint64_t keyEnd = kLengthBytes + *keySize;
  const auto key = reader.raw(*keySize);
  if (!isKeyStart(key.value_or(reader.rest()), key.has_value())) {
    return garbage(offset, "there is no key of a store");
  }
  const auto valueSize = key ? reader.number<std::uint32_t>() : std::nullopt;
  if (!valueSize) {
    return incomplete(key ? keyEnd + kLengthBytes : keyEnd, left);
  }
  const std::uint64_t size = keyEnd + kLengthBytes + *valueSize;
  if (size > left && *valueSize > kMostValueBytes) {
    return garbage(offset, str("a value of ", *valueSize, " bytes is announced, beyond the end"));
  }
  const auto value = reader.raw(*valueSize);
  if (!value) {
    return incomplete(size, left);
  }
  return Front{.key = *key, .value = *value, .size = size};
}

/// How many bytes the batch mark with this value covers; none when it is no number.
std::optional<std::uint64_t> batchBytes(std::string_view value) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  const bool good = error == std::errc() && end == value.data() + value.size();
  return good ? std::optional(count) : std::nullopt;
}

/// Whether a file may be ours of which only the beginning `bytes` of the first record is there.
/// Strict, because what is torn gets cut off, and this would empty the file.
bool isTornBeginning(std::string_view bytes) {
  for (const std::string_view first : {kHeaderKey, kRefcountKey}) {
    std::string start;
    ByteWriter(start).number(static_cast<std::uint32_t>(first.size()));
    const std::size_t shortest = start.size();
    start += first;
    const std::size_t shared = std::min(start.size(), bytes.size());
    if (shared >= shortest && bytes.substr(0, shared) == start.substr(0, shared)) {
      return true;
    }
  }
  return false;
}

void appendRecord(std::string& out, std::string_view key, std::string_view value) {
  ByteWriter writer(out);
  writer.number(static_cast<std::uint32_t>(key.size()));
  writer.raw(key);
  writer.number(static_cast<std::uint32_t>(value.size()));
  writer.raw(value);
}

}  // namespace

std::string encodeChange(std::span<const Record> records) {
  std::string body;
  for (const Record& record : records) {
    appendRecord(body, record.key, record.value);
  }
  if (records.size() < 2) {
    return body;
  }
  std::string marked;
  marked.reserve(body.size() + 64);
  appendRecord(marked, kBatchKey, str(body.size()));
  return marked + body;
}

Result<RecordLog::Progress> RecordLog::replay(std::string_view bytes, std::uint64_t left) {
  Progress progress;
  while (progress.used < left) {
    const std::string_view rest = bytes.substr(progress.used);
    const std::uint64_t leftNow = left - progress.used;
    const Result<Front> result = readFront(rest, leftNow, offset_);
    if (!result.isOk()) {
      return result.failure();
    }
    Front front = result.value();
    if (front.stop == Stop::TORN && offset_ == 0 && !isTornBeginning(rest)) {
      return garbage(0, "it does not begin like the file of a store");
    }
    if (front.stop == Stop::END && front.key == kBatchKey) {
      const auto covered = batchBytes(front.value);
      if (!covered) {
        return garbage(offset_, "a batch has no length");
      }
      front.stop = *covered > leftNow - front.size ? Stop::TORN : Stop::END;
    }
    if (front.stop != Stop::END) {
      progress.stop = front.stop;
      progress.wanted = front.wanted;
      break;
    }
    apply(front.key, front.value);
    progress.used += front.size;
    offset_ += front.size;
  }
  return progress;
}

const std::string* RecordLog::find(std::string_view storedKey) const {
  const auto found = values_.find(storedKey);
  return found == values_.end() ? nullptr : &found->second;
}

void RecordLog::apply(std::string_view key, std::string_view value) {
  if (key.front() != '-') {
    values_.insert_or_assign(std::string(key), value);
  } else if (key.starts_with(kHeaderKey)) {
    if (key != kBatchKey) {
      marks_.push_back({std::string(key), std::string(value)});
    }
  } else if (const auto found = values_.find(key.substr(1)); found != values_.end()) {
    values_.erase(found);
  }
}

}  // namespace unisono
