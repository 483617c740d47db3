#include "verbs/dump_format.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/str.hpp"
#include "terminal.hpp"
#include "value.hpp"

namespace unisono::cli {
namespace {

constexpr std::string_view kSchema = "unisono-store-dump/1";

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  throw FileFailure(str(name, " is not a complete dump: ", why, "; nothing was loaded"));
}

std::string crcText(std::uint32_t crc) {
  std::string bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    bytes += static_cast<char>(crc >> shift & 255U);
  }
  return toHex(bytes);
}

/// The bytes of a field that is text, or base64 when `encoding` says so.
std::optional<std::string> bytesOf(const nlohmann::json& line, const char* field,
                                   const char* encoding) {
  const auto found = line.find(field);
  if (found == line.end() || !found->is_string()) {
    return std::nullopt;
  }
  const std::string text = found->get<std::string>();
  const std::string kind = line.value(encoding, "utf-8");
  return kind == "base64"  ? fromBase64(text)
         : kind == "hex"   ? fromHex(text)
         : kind == "utf-8" ? std::optional(text)
                           : std::nullopt;
}

/// Checks the last line against what precedes it.
void checkEnd(std::string_view name, std::string_view last, std::uint64_t count,
              std::uint32_t crc) {
  const auto end = nlohmann::json::parse(last, nullptr, false);
  if (!end.is_object() || !end.contains("end")) {
    refuse(name, "its end is missing");
  }
  if (end.value("crc32", "") != crcText(crc)) {
    refuse(name, "its checksum is wrong, so it was changed or damaged");
  }
  const auto stated = end.find("count");
  if (stated == end.end()) {
    refuse(name, "it does not say how many entries it should have");
  }
  if (stated->get<std::uint64_t>() != count) {
    refuse(name, str("it has ", count, " entries and should have ", stated->dump()));
  }
}

DumpEntry parseEntry(std::string_view name, std::string_view text, std::size_t number) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (line.is_object()) {
    std::optional<std::string> key = bytesOf(line, "key", "key_encoding");
    std::optional<std::string> value = bytesOf(line, "value", "encoding");
    if (key && value) {
      return {.key = std::move(*key), .value = std::move(*value)};
    }
  }
  refuse(name, str("line ", number, " is not an entry"));
}

}  // namespace

DumpWriter::DumpWriter(Sink sink) : sink_(std::move(sink)) {
  line(str("{\"schema\":\"", kSchema, "\"}"));
}

void DumpWriter::line(const std::string& text) {
  const std::string bytes = text + "\n";
  crc_ = crc32(bytes, crc_);
  sink_(bytes);
}

void DumpWriter::entry(const std::string& key, const std::string& value) {
  ++count_;
  line(str("{", jsonFields(key, &value, Form::TEXT), "}"));
}

void DumpWriter::end() {
  line(str("{\"end\":true,\"count\":", count_, ",\"crc32\":\"", crcText(crc_), "\"}"));
}

std::vector<DumpEntry> readDump(std::string_view content, std::string_view name) try {
  if (!content.ends_with('\n')) {
    refuse(name, content.empty() ? "it is empty" : "its end is missing");
  }
  const std::size_t before = content.substr(0, content.size() - 1).rfind('\n');
  const std::size_t lastLine = before == std::string_view::npos ? 0 : before + 1;
  const auto head = nlohmann::json::parse(content.substr(0, content.find('\n')), nullptr, false);
  const std::string schema = head.is_object() ? head.value("schema", "") : "";
  if (schema != kSchema) {
    refuse(name, str("its first line should be {\"schema\":\"", kSchema, "\"}"));
  }
  std::string_view body = content.substr(0, lastLine);
  const std::uint32_t crc = crc32(body);
  body.remove_prefix(std::min(body.size(), content.find('\n') + 1));
  std::vector<std::string_view> lines;
  while (!body.empty()) {
    const std::size_t end = body.find('\n');
    lines.push_back(body.substr(0, end));
    body.remove_prefix(end + 1);
  }
  checkEnd(name, content.substr(lastLine), lines.size(), crc);
  std::vector<DumpEntry> entries;
  entries.reserve(lines.size());
  std::set<std::string_view> keys;
  for (const std::string_view line : lines) {
    throwIfInterrupted();  // a large dump takes seconds
    entries.push_back(parseEntry(name, line, entries.size() + 2));
    if (!keys.insert(entries.back().key).second) {
      refuse(name, str("line ", entries.size() + 1, " has a key that an earlier one has"));
    }
  }
  return entries;
} catch (const nlohmann::json::exception&) {  // a field of the wrong type
  refuse(name, "a line holds something else than it should");
}

}  // namespace unisono::cli
