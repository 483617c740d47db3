// Shares: how elements are cut into as many parts as there are ranks.
//
// All parts but the last few have the same size, a multiple of 64 bytes where there is enough, so
// that no cache line belongs to two ranks. Pure arithmetic.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace unisono {

/// Part of a buffer, in bytes.
struct Range {
  std::size_t begin = 0;
  std::size_t size = 0;

  std::size_t end() const noexcept { return begin + size; }
  bool operator==(const Range&) const = default;
};

/// The part of `rank` when `bytes` bytes are cut for `ranks` ranks at multiples of `width`, the
/// size of an element (which divides 64, or is divided by it).
constexpr Range shareOf(std::size_t bytes, int ranks, int rank, std::size_t width) noexcept {
  const std::size_t grain = std::max<std::size_t>(width, 64);
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t part = ((bytes + count - 1) / count + grain - 1) / grain * grain;
  const std::size_t begin = std::min(bytes, part * static_cast<std::size_t>(rank));
  return {begin, std::min(bytes - begin, part)};
}

/// The largest piece of which `room` bytes hold one for each of `ranks` ranks: whole lines, or
/// where there are very many ranks whole elements of any type.
constexpr std::size_t pieceFor(std::size_t room, std::size_t ranks) noexcept {
  const std::size_t most = room / ranks;
  const std::size_t grain = most >= 64 ? 64 : most >= 16 ? 16 : 1;
  return most / grain * grain;
}

/// The bytes of round `round` when `bytes` bytes go by in rounds of `chunk`.
constexpr Range roundOf(std::size_t bytes, std::size_t chunk, std::size_t round) noexcept {
  const std::size_t begin = std::min(bytes, chunk * round);
  return {begin, std::min(bytes - begin, chunk)};
}
constexpr std::size_t roundsFor(std::size_t bytes, std::size_t chunk) noexcept {
  // A division takes as long as everything else in a small operation.
  return bytes <= chunk ? (bytes == 0 ? 0 : 1) : (bytes + chunk - 1) / chunk;
}

/// How many bytes of `room` are whole elements of `width` bytes, which is a power of two; and how
/// many elements `bytes` bytes are. The same without a division.
constexpr std::size_t wholeElements(std::size_t room, std::size_t width) noexcept {
  return room & ~(width - 1);
}
constexpr std::size_t elementsOf(std::size_t bytes, std::size_t width) noexcept {
  return bytes >> static_cast<unsigned>(std::countr_zero(width));
}

}  // namespace unisono
