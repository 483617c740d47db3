#include "value.hpp"

#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/str.hpp"

namespace unisono::cli {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string withoutBlanks(std::string_view text) {
  std::string dense;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      dense += c;
    }
  }
  return dense;
}

std::string jsonText(std::string_view text) {
  return nlohmann::json(text).dump();
}

constexpr std::array<std::uint32_t, 256> crcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1U) != 0 ? 0xEDB88320U ^ (value >> 1U) : value >> 1U;
    }
    table[i] = value;
  }
  return table;
}

}  // namespace

std::string toHex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kHexDigits[byte >> 4U];
    text += kHexDigits[byte & 15U];
  }
  return text;
}

std::string toBase64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8U | (j < group.size() ? static_cast<unsigned char>(group[j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= group.size() ? kBase64Digits[bits >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return text;
}

std::optional<std::string> fromHex(std::string_view text) {
  const std::string digits = withoutBlanks(text);
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    std::uint32_t byte = 0;
    for (std::size_t j = i; j < i + 2; ++j) {
      const auto lower = static_cast<char>(
          j < digits.size() ? std::tolower(static_cast<unsigned char>(digits[j])) : '-');
      const std::size_t digit = kHexDigits.find(lower);
      if (digit == std::string_view::npos) {
        return std::nullopt;
      }
      byte = byte << 4U | static_cast<std::uint32_t>(digit);
    }
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::optional<std::string> fromBase64(std::string_view text) {
  std::string digits = withoutBlanks(text);
  if (digits.size() % 4 != 0) {
    return std::nullopt;
  }
  std::size_t padding = 0;
  while (padding < 2 && digits.ends_with('=')) {
    digits.pop_back();
    ++padding;
  }
  std::string bytes;
  std::uint32_t bits = 0;
  std::uint32_t count = 0;
  for (const char c : digits) {
    const std::size_t digit = kBase64Digits.find(c);
    if (digit == std::string_view::npos) {
      return std::nullopt;
    }
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 255U);
    }
  }
  const bool restIsZero = (bits & ((1U << count) - 1U)) == 0;
  return restIsZero ? std::optional(bytes) : std::nullopt;
}

bool isUtf8(std::string_view bytes) {
  try {
    static_cast<void>(jsonText(bytes));
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string shown(std::string_view value, Form form) {
  switch (form) {
    case Form::HEX:
      return toHex(value);
    case Form::BASE64:
      return toBase64(value);
    case Form::RAW:
      return std::string(value);
    case Form::TEXT:
      break;
  }
  return printable(value);
}

std::string jsonKey(std::string_view key) {
  return isUtf8(key) ? jsonText(key) : str("{\"base64\":\"", toBase64(key), "\"}");
}

std::string jsonFields(std::string_view key, const std::string* value, Form form) {
  const bool plainKey = isUtf8(key);
  std::string text = str("\"key\":", plainKey ? jsonText(key) : jsonText(toBase64(key)));
  if (!plainKey) {
    text += ",\"key_encoding\":\"base64\"";
  }
  if (value == nullptr) {
    return text + ",\"value\":null";
  }
  if (form == Form::HEX) {
    return str(text, ",\"value\":\"", toHex(*value), "\",\"encoding\":\"hex\"");
  }
  if (form == Form::BASE64 || !isUtf8(*value)) {
    return str(text, ",\"value\":\"", toBase64(*value), "\",\"encoding\":\"base64\"");
  }
  return str(text, ",\"value\":", jsonText(*value), ",\"encoding\":\"utf-8\"");
}

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  static constexpr std::array<std::uint32_t, 256> kTable = crcTable();
  std::uint32_t value = ~before;
  for (const char c : bytes) {
    value = kTable[(value ^ static_cast<unsigned char>(c)) & 255U] ^ (value >> 8U);
  }
  return ~value;
}

}  // namespace unisono::cli
