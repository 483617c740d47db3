// A file that `unisono store load` is given: it is taken whole or refused with one line.
#include <string>

#include "base/str.hpp"
#include "fuzz/check.hpp"
#include "terminal.hpp"
#include "value.hpp"
#include "verbs/dump_format.hpp"

namespace {

using namespace unisono;
using namespace unisono::cli;

std::string dumpOf(const std::vector<DumpEntry>& entries) {
  std::string content;
  DumpWriter writer([&](std::string_view bytes) { content += bytes; });
  for (const DumpEntry& entry : entries) {
    writer.entry(entry.key, entry.value);
  }
  writer.end();
  return content;
}

bool same(const std::vector<DumpEntry>& left, const std::vector<DumpEntry>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const DumpEntry& one, const DumpEntry& other) {
                      return one.key == other.key && one.value == other.value;
                    });
}

/// Whatever is taken can be written and taken again.
void load(const std::string& content) {
  try {
    const std::vector<DumpEntry> entries = readDump(content, "the file");
    FUZZ_EXPECT(same(readDump(dumpOf(entries), "the copy"), entries));
  } catch (const FileFailure& failure) {
    const std::string_view text = failure.what();
    FUZZ_EXPECT(text.starts_with("the file is not a complete dump: "));
    FUZZ_EXPECT(text.ends_with("; nothing was loaded") && text.find('\n') == text.npos);
  }
}

/// `body` with a beginning and an end that fit, which no fuzzer would find: so that what is in
/// between is looked at.
std::string completed(std::string_view body, std::string_view count) {
  std::string content = str("{\"schema\":\"unisono-store-dump/1\"}\n", body);
  content += body.empty() || body.ends_with('\n') ? "" : "\n";
  const std::uint32_t crc = crc32(content);
  const std::string bytes = {static_cast<char>(crc >> 24U), static_cast<char>(crc >> 16U),
                             static_cast<char>(crc >> 8U), static_cast<char>(crc)};
  return content += str("{\"end\":true,", count, "\"crc32\":\"", toHex(bytes), "\"}\n");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  load(text);
  const auto lines = std::count(text.begin(), text.end(), '\n');
  const std::int64_t unfinished = text.empty() || text.ends_with('\n') ? 0 : 1;
  load(completed(text, str("\"count\":", lines + unfinished, ",")));

  // The first line may be more of the end, the rest is the body.
  const std::size_t first = std::min(text.find('\n'), text.size());
  load(completed(text.substr(std::min(first + 1, text.size())), text.substr(0, first)));

  const std::vector<DumpEntry> entries = {
      {.key = text.substr(0, size / 3), .value = text.substr(size / 3)},
      {.key = text + "'", .value = ""}};  // never the key before it
  FUZZ_EXPECT(same(readDump(dumpOf(entries), "our own"), entries));
  return 0;
}
