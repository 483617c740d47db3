// ByteWriter and ByteReader: little-endian fields, as every wire and file format here has them.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace unisono {

static_assert(std::endian::native == std::endian::little, "wire formats are little-endian");

using ByteView = std::span<const std::uint8_t>;

inline std::string_view asText(ByteView bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline ByteView asBytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// What a field may be. Not bool: one that holds 2 is undefined behaviour, and a peer decides what
/// arrives.
template <typename T>
concept FieldNumber = std::integral<T> && !std::same_as<T, bool>;

/// Appends fields to a string of bytes.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) noexcept : out_(out) {}

  template <FieldNumber T>
  void number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out_.append(raw, sizeof(T));
  }
  void raw(std::string_view bytes) { out_.append(bytes); }
  /// u64 length, then the bytes.
  void blob(std::string_view bytes) {
    number<std::uint64_t>(bytes.size());
    raw(bytes);
  }

 private:
  std::string& out_;
};

/// Takes fields from the front of some bytes; every read says whether there was enough.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) noexcept : rest_(bytes) {}

  template <FieldNumber T>
  std::optional<T> number() noexcept {
    if (rest_.size() < sizeof(T)) {
      return std::nullopt;
    }
    T value;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  std::optional<std::string_view> raw(std::uint64_t count) noexcept {
    if (rest_.size() < count) {
      return std::nullopt;
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::optional<std::string_view> blob() noexcept {
    const auto size = number<std::uint64_t>();
    return size ? raw(*size) : std::nullopt;
  }
  std::string_view rest() const noexcept { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace unisono
