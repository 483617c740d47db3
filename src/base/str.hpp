// Text: building it, and making foreign bytes safe to show.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <span>
#include <string>
#include <string_view>

namespace unisono {

namespace detail {
/// "{}{}{}" for `Count` parts, made at compile time.
template <std::size_t Count>
constexpr std::array<char, 2 * Count + 1> placeholders() {
  std::array<char, 2 * Count + 1> text{};
  for (std::size_t i = 0; i < Count; ++i) {
    text[2 * i] = '{';
    text[2 * i + 1] = '}';
  }
  return text;
}
}  // namespace detail

/// The parts one after the other: str("rank ", 3, " of ", 4) is "rank 3 of 4".
template <typename... Parts>
std::string str(const Parts&... parts) {
  static constexpr auto kFormat = detail::placeholders<sizeof...(Parts)>();
  return fmt::vformat(fmt::string_view(kFormat.data(), 2 * sizeof...(Parts)),
                      fmt::make_format_args(parts...));
}

/// The items with `separator` between them; after `most` of them "and N more".
std::string join(std::span<const std::string> items, std::string_view separator,
                 std::size_t most = 16);

/// `text` in valid UTF-8 and on one line: control characters, line separators and bytes that
/// are no part of a character are written as \xNN, all else is left alone.
std::string printable(std::string_view text);

/// "64 KiB", "8 MiB", "1441 B".
std::string formatBytes(std::uint64_t bytes);

/// "250ms", "5s", "2m30s".
std::string formatDuration(std::chrono::milliseconds duration);

/// The known name that `name` was probably meant to be; empty if nothing is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

/// The text of an errno value, such as "Connection refused".
std::string errnoText(int error);

/// The text and the name of an errno value, such as "Connection refused (ECONNREFUSED)".
std::string errnoDetail(int error);

}  // namespace unisono
