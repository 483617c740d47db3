// Values: bytes as people and programs give and see them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace unisono::cli {

/// How values are written. TEXT shows what is no text safely, as \xNN; JSON has base64 then.
enum class Form : std::uint8_t { TEXT, RAW, HEX, BASE64 };

std::string toHex(std::string_view bytes);
std::string toBase64(std::string_view bytes);

/// The bytes behind `text`, blanks and line ends left out; nothing when it is not of that form.
std::optional<std::string> fromHex(std::string_view text);
std::optional<std::string> fromBase64(std::string_view text);

bool isUtf8(std::string_view bytes);

/// `value` for a person, in one line unless it is RAW.
std::string shown(std::string_view value, Form form);

/// A JSON string, or {"base64":"…"} when it is not UTF-8.
std::string jsonKey(std::string_view key);

/// "key":…,"value":…,"encoding":… without braces, so that others may be put beside them. The
/// value is null when there is none; "key_encoding" is there when the key is not UTF-8.
std::string jsonFields(std::string_view key, const std::string* value, Form form);

/// CRC-32 as in zlib, continued from `before`.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

}  // namespace unisono::cli
