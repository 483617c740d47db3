// The file that dump writes and load reads; docs/command_line.md describes it.
//
//   {"schema":"unisono-store-dump/1"}
//   {"key":"a","value":"text","encoding":"utf-8"}
//   {"key":"b","value":"AP8=","encoding":"base64"}
//   {"end":true,"count":2,"crc32":"5f3e0c1a"}
//
// The last line says how many entries there are, and the CRC-32 of all bytes before it: a file
// that was cut or changed is noticed before anything is done with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::cli {

/// Writes a dump, piece by piece, to `sink`.
class DumpWriter {
 public:
  using Sink = std::function<void(std::string_view)>;
  explicit DumpWriter(Sink sink);
  void entry(const std::string& key, const std::string& value);
  void end();
  std::uint64_t count() const noexcept { return count_; }

 private:
  void line(const std::string& text);
  const Sink sink_;
  std::uint64_t count_ = 0;
  std::uint32_t crc_ = 0;
};

struct DumpEntry {
  std::string key;
  std::string value;
};

/// The entries of a dump; throws FileFailure that names `name` and says what is wrong with it.
std::vector<DumpEntry> readDump(std::string_view content, std::string_view name);

}  // namespace unisono::cli
