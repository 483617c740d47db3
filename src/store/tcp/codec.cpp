#include "store/tcp/codec.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/str.hpp"

namespace unisono::tcp {
namespace {

// A buffer larger than this is given back once its request is done: most connections are idle,
// and there may be many.
constexpr std::size_t kKeptRequest = 512;

std::uint64_t u64At(std::string_view bytes, std::size_t position) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + position, sizeof value);
  return value;
}

/// Takes a length and that many bytes, at most `most`; false when they are not there.
bool takeBlob(std::string_view& rest, std::uint64_t most, std::vector<std::string_view>& into) {
  if (rest.size() < 8) {
    return false;
  }
  const std::uint64_t size = u64At(rest, 0);
  rest.remove_prefix(8);
  if (size > most || size > rest.size()) {
    return false;
  }
  into.push_back(rest.substr(0, size));
  rest.remove_prefix(size);
  return true;
}

template <typename T>
bool takeNumber(std::string_view& rest, std::int64_t& into) {
  T value = 0;
  if (rest.size() < sizeof value) {
    return false;
  }
  std::memcpy(&value, rest.data(), sizeof value);
  into = value;
  rest.remove_prefix(sizeof value);
  return true;
}

bool takeItems(std::string_view& rest, bool pairs, const StoreLimits& limits, Request& request) {
  std::int64_t count = 0;
  if (!takeNumber<std::int64_t>(rest, count) ||
      static_cast<std::uint64_t>(count) > limits.keysPerCommand) {
    return false;
  }
  for (; count > 0; --count) {
    if (!takeBlob(rest, limits.keyBytes, request.keys) ||
        (pairs && !takeBlob(rest, limits.valueBytes, request.values))) {
      return false;
    }
  }
  return true;
}

bool takeField(std::string_view& rest, Field field, const StoreLimits& limits, Request& request) {
  switch (field) {
    case Field::U32:
      return takeNumber<std::uint32_t>(rest, request.number);
    case Field::I64:
      return takeNumber<std::int64_t>(rest, request.number);
    case Field::KEY:
      return takeBlob(rest, limits.keyBytes, request.keys);
    case Field::VALUE:
      return takeBlob(rest, limits.valueBytes, request.values);
    case Field::KEYS:
    case Field::PAIRS:
      return takeItems(rest, field == Field::PAIRS, limits, request);
    case Field::END:
      break;
  }
  return true;
}

Status overLimit(std::string_view what, std::uint64_t is, std::uint64_t most) {
  return {Reason::LIMIT, str("the request has ", what, " of ", is, "; the limit is ", most)};
}

}  // namespace

void RequestScanner::reset() noexcept {
  shape_ = nullptr;
  answered_ = false;
  done_ = false;
  counted_ = false;
  field_ = 0;
  itemsLeft_ = 0;
  position_ = 0;
  needed_ = 1;
}

/// Whether `more` bytes beyond the position have arrived; otherwise notes that they are needed.
bool RequestScanner::have(std::string_view bytes, std::uint64_t more) {
  needed_ = position_ + more;
  return bytes.size() >= needed_;
}

Status RequestScanner::scan(std::string_view bytes) {
  if (shape_ == nullptr) {
    if (bytes.empty()) {
      return Status::ok();
    }
    if (Status status = begin(static_cast<std::uint8_t>(bytes[0])); !status.isOk()) {
      return status;
    }
  }
  while (shape_->fields[field_] != Field::END) {
    advanced_ = false;
    if (Status status = scanField(bytes, shape_->fields[field_]); !status.isOk()) {
      return status;
    }
    if (needed_ > limits_.commandBytes) {
      return overLimit("a length", needed_, limits_.commandBytes);
    }
    if (!advanced_) {
      return Status::ok();
    }
    ++field_;
    counted_ = false;
  }
  done_ = true;
  return Status::ok();
}

Status RequestScanner::begin(std::uint8_t byte) {
  answered_ = (byte & kAnswered) != 0;
  shape_ = shapeOf(byte);
  if (shape_ == nullptr) {
    answered_ = false;
    return {Reason::PROTOCOL, str("there is no query type ", byte)};
  }
  position_ = 1;
  return Status::ok();
}

Status RequestScanner::scanField(std::string_view bytes, Field field) {
  switch (field) {
    case Field::U32:
    case Field::I64: {
      const std::size_t width = field == Field::U32 ? 4 : 8;
      if (have(bytes, width)) {
        position_ += width;
        advanced_ = true;
      }
      return Status::ok();
    }
    case Field::KEY:
    case Field::VALUE:
      return scanBlob(bytes, field);
    case Field::KEYS:
      return scanItems(bytes, false);
    case Field::PAIRS:
      return scanItems(bytes, true);
    case Field::END:
      break;
  }
  return Status::ok();
}

Status RequestScanner::scanBlob(std::string_view bytes, Field field) {
  if (!have(bytes, 8)) {
    return Status::ok();
  }
  const std::uint64_t size = u64At(bytes, position_);
  const bool isKey = field == Field::KEY;
  const std::uint64_t most = isKey ? limits_.keyBytes : limits_.valueBytes;
  if (size > most) {
    return overLimit(isKey ? "a key length" : "a value length", size, most);
  }
  if (have(bytes, 8 + size)) {
    position_ += 8 + size;
    advanced_ = true;
  }
  return Status::ok();
}

Status RequestScanner::scanCount(std::string_view bytes, std::uint64_t itemsEach) {
  if (!have(bytes, 8)) {
    return Status::ok();
  }
  const std::uint64_t count = u64At(bytes, position_);
  if (count > limits_.keysPerCommand) {
    return overLimit("a number of keys", count, limits_.keysPerCommand);
  }
  itemsLeft_ = count * itemsEach;
  position_ += 8;
  counted_ = true;
  return Status::ok();
}

Status RequestScanner::scanItems(std::string_view bytes, bool pairs) {
  if (!counted_) {
    if (Status status = scanCount(bytes, pairs ? 2 : 1); !status.isOk() || !counted_) {
      return status;
    }
  }
  for (; itemsLeft_ > 0; --itemsLeft_) {
    advanced_ = false;
    const bool isValue = pairs && itemsLeft_ % 2 == 1;
    const Status status = scanBlob(bytes, isValue ? Field::VALUE : Field::KEY);
    if (!status.isOk() || !advanced_) {
      return status;
    }
  }
  advanced_ = true;
  return Status::ok();
}

RequestParser::Step RequestParser::scanned(std::string_view bytes) {
  failure_ = scanner_.scan(bytes);
  if (!failure_.isOk()) {
    return Step::BAD;
  }
  return scanner_.done() ? Step::REQUEST : Step::NEED_MORE;
}

RequestParser::Step RequestParser::next(std::string_view* chunk, Request* request) {
  if (current_.capacity() > kKeptRequest) {
    std::string().swap(current_);  // assigning an empty string would keep the memory
  }
  if (chunk->empty()) {
    return Step::NEED_MORE;
  }
  if (!partial_.empty()) {
    return nextInPieces(chunk, request);
  }
  // The usual case: whole requests, taken apart where they lie.
  if (const std::size_t size = decodeRequest(*chunk, limits_, request)) {
    chunk->remove_prefix(size);
    return Step::REQUEST;
  }
  scanner_.reset();
  const Step step = scanned(*chunk);
  UNISONO_DCHECK(step != Step::REQUEST);
  if (step == Step::NEED_MORE) {
    partial_.assign(*chunk);
    *chunk = {};
  }
  return step;
}

RequestParser::Step RequestParser::nextInPieces(std::string_view* chunk, Request* request) {
  while (!chunk->empty()) {
    const std::size_t take = std::min(scanner_.needed() - partial_.size(), chunk->size());
    partial_.append(chunk->substr(0, take));
    chunk->remove_prefix(take);
    if (partial_.size() < scanner_.needed()) {
      break;
    }
    const Step step = scanned(partial_);
    if (step == Step::REQUEST) {
      current_.swap(partial_);
      partial_.clear();
      decodeRequest(current_, limits_, request);
    }
    if (step != Step::NEED_MORE) {
      return step;
    }
  }
  return Step::NEED_MORE;
}

void RequestParser::discard() noexcept {
  std::string().swap(partial_);
  std::string().swap(current_);
}

std::size_t decodeRequest(std::string_view bytes, const StoreLimits& limits, Request* request) {
  const Shape* shape = bytes.empty() ? nullptr : shapeOf(static_cast<std::uint8_t>(bytes.front()));
  if (shape == nullptr) {
    return 0;
  }
  request->shape = shape;
  request->answered = (static_cast<std::uint8_t>(bytes.front()) & kAnswered) != 0;
  request->keys.clear();
  request->values.clear();
  request->number = 0;
  std::string_view rest = bytes.substr(1);
  for (const Field field : shape->fields) {
    if (field == Field::END) {
      break;
    }
    if (!takeField(rest, field, limits, *request)) {
      return 0;
    }
  }
  const std::size_t size = bytes.size() - rest.size();
  return size <= limits.commandBytes ? size : 0;
}

RequestWriter& RequestWriter::begin(Query query, bool answered) {
  const auto byte = static_cast<std::uint8_t>(query);
  ByteWriter(bytes_).number<std::uint8_t>(answered ? byte | kAnswered : byte);
  return *this;
}

RequestWriter& RequestWriter::u32(std::uint32_t value) {
  ByteWriter(bytes_).number(value);
  return *this;
}

RequestWriter& RequestWriter::i64(std::int64_t value) {
  ByteWriter(bytes_).number(value);
  return *this;
}

RequestWriter& RequestWriter::blob(std::string_view bytes) {
  ByteWriter(bytes_).blob(bytes);
  return *this;
}

RequestWriter& RequestWriter::keys(std::span<const std::string> keys) {
  ByteWriter(bytes_).number<std::uint64_t>(keys.size());
  for (const std::string& key : keys) {
    ByteWriter(bytes_).blob(key);
  }
  return *this;
}

}  // namespace unisono::tcp
