#include "store/tcp/codec.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "base/str.hpp"

namespace unisono::tcp {
namespace {

// A buffer larger than this is given back once its request is done: most connections are idle,
// and there may be many.
constexpr std::size_t kKeepCapacity = 512;

std::uint64_t u64At(std::string_view bytes, std::size_t position) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + position, sizeof value);
  return value;
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
  if (current_.capacity() > kKeepCapacity) {
    std::string().swap(current_);  // assigning an empty string would keep the memory
  }
  if (partial_.empty()) {  // the usual case: whole requests, parsed where they lie
    scanner_.reset();
    if (chunk->empty()) {
      return Step::NEED_MORE;
    }
    const Step step = scanned(*chunk);
    if (step == Step::REQUEST) {
      request->answered = scanner_.answered();
      decodeRequest(chunk->substr(0, scanner_.size()), *scanner_.shape(), request);
      chunk->remove_prefix(scanner_.size());
    } else if (step == Step::NEED_MORE) {
      partial_.assign(*chunk);
      *chunk = {};
    }
    return step;
  }
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
      request->answered = scanner_.answered();
      decodeRequest(current_, *scanner_.shape(), request);
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

void decodeRequest(std::string_view bytes, const Shape& shape, Request* request) {
  request->shape = &shape;
  request->keys.clear();
  request->values.clear();
  request->number = 0;
  ByteReader reader(bytes.substr(1));
  // The scanner has been here: every field is complete, so value() cannot fail.
  for (const Field field : shape.fields) {
    switch (field) {
      case Field::U32:
        request->number = reader.number<std::uint32_t>().value();
        break;
      case Field::I64:
        request->number = reader.number<std::int64_t>().value();
        break;
      case Field::KEY:
        request->keys.push_back(reader.blob().value());
        break;
      case Field::VALUE:
        request->values.push_back(reader.blob().value());
        break;
      case Field::KEYS:
      case Field::PAIRS:
        for (auto left = reader.number<std::uint64_t>().value(); left > 0; --left) {
          request->keys.push_back(reader.blob().value());
          if (field == Field::PAIRS) {
            request->values.push_back(reader.blob().value());
          }
        }
        break;
      case Field::END:
        return;
    }
  }
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
