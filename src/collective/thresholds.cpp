#include "collective/thresholds.hpp"

#include <algorithm>
#include <iterator>

#include "base/str.hpp"
#include "transport/shm/layout.hpp"

namespace unisono {
namespace {

constexpr std::size_t kKi = std::size_t{1} << 10U;
constexpr std::size_t kMi = std::size_t{1} << 20U;
constexpr ByteRange kNever;

/// Not where one gives and one takes: by slots both cores copy at the same time. Not where several
/// take the same block: it is copied into slots once for all of them, which costs less than that
/// all go to the kernel. Measured with up to four ranks on two cores, of AMD's.
constexpr std::array<PullRanges, kMovements> kPulled = {{
    {kNever, kNever},                             // broadcast
    {{32 * kKi, kMi}, kNever},                    // all_gather
    {kNever, kNever},                             // gather
    {kNever, {64 * kKi, SIZE_MAX}},               // scatter
    {{32 * kKi, 4 * kMi}, {64 * kKi, SIZE_MAX}},  // all_to_all
}};

/// A family is a row. On AMD's processors a line that another core has written is dear to write
/// again, so only a few pay off; the value for Intel's has not been measured with this code.
constexpr Thresholds kTable[] = {
    {.family = "intel",
     .llTotal = 4096,
     .lastOf16 = shm::kSmallSlot,
     .lastOfMore = 1024,
     .flatOfMore = shm::kSmallSlot,
     .pulled = kPulled},
    {.family = "other",
     .llTotal = 4 * shm::LlLine::kPayload,
     .lastOf16 = shm::kSmallSlot,
     .lastOfMore = 1024,
     .flatOfMore = shm::kSmallSlot,
     .pulled = kPulled},
};

std::string_view familyHere() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0 ? "intel" : "other";
#else
  return "other";
#endif
}

std::string inWords(std::size_t bytes) {
  return bytes >= kMi && bytes % kMi == 0   ? str(bytes / kMi, " MiB")
         : bytes >= kKi && bytes % kKi == 0 ? str(bytes / kKi, " KiB")
                                            : str(bytes, " bytes");
}

std::string inWords(const ByteRange& range) {
  if (range.from == SIZE_MAX) {
    return "never";
  }
  return range.below == SIZE_MAX ? str("from ", inWords(range.from))
                                 : str(inWords(range.from), " to ", inWords(range.below));
}

}  // namespace

const Thresholds& thresholds() noexcept {
  static const Thresholds* const here =
      std::find_if(std::begin(kTable), std::end(kTable) - 1,
                   [](const Thresholds& row) { return row.family == familyHere(); });
  return *here;
}

std::span<const Thresholds> allThresholds() noexcept {
  return kTable;
}

std::vector<ThresholdLine> describe(const Thresholds& table) {
  std::vector<ThresholdLine> lines = {
      {"all_reduce", "ll", str("roomy, up to ", inWords(table.llTotal), " of all other ranks")},
      {"all_reduce", "last",
       str("crowded, up to ", inWords(table.lastOf16), ", or ", inWords(table.lastOfMore),
           " of more than 16 ranks")},
      {"all_reduce", "flat",
       str("roomy, two ranks, or up to ", inWords(table.flatOfMore), " of more")},
      {"all_reduce", "slices", "otherwise"}};
  constexpr std::string_view kNames[] = {"broadcast", "all_gather", "gather", "scatter",
                                         "all_to_all"};
  for (std::size_t i = 0; i < kMovements; ++i) {
    lines.push_back({std::string(kNames[i]), "pull",
                     str("two ranks: ", inWords(table.pulled[i].twoRanks),
                         "; more: ", inWords(table.pulled[i].more))});
  }
  return lines;
}

}  // namespace unisono
