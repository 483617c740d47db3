#include "reduction/copy.hpp"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduction/copy.cpp"  // NOLINT: Highway's name
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace unisono::copies::HWY_NAMESPACE {

/// `bytes` is a multiple of four vectors, `to` is aligned to one.
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t step = hn::Lanes(d);
  auto* out = reinterpret_cast<std::uint8_t*>(to);
  const auto* in = reinterpret_cast<const std::uint8_t*>(from);
  for (std::size_t at = 0; at < bytes; at += 4 * step) {
    const auto v0 = hn::LoadU(d, in + at);
    const auto v1 = hn::LoadU(d, in + at + step);
    const auto v2 = hn::LoadU(d, in + at + 2 * step);
    const auto v3 = hn::LoadU(d, in + at + 3 * step);
    hn::Stream(v0, d, out + at);
    hn::Stream(v1, d, out + at + step);
    hn::Stream(v2, d, out + at + 2 * step);
    hn::Stream(v3, d, out + at + 3 * step);
  }
  hwy::FlushStream();  // such stores are not ordered by a release alone
}

}  // namespace unisono::copies::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {
namespace copies {
HWY_EXPORT(stream);
}  // namespace copies

namespace {
constexpr std::size_t kLine = 64;    // no vector is wider, so a line's start suits all
constexpr std::size_t kPiece = 256;  // four of the widest vectors
constexpr std::size_t kLeast = 4096;
}  // namespace

void copyBytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) {  // memcpy must not be given null pointers
    std::memcpy(to, from, bytes);
  }
}

void copyStream(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes < kLeast) {
    copyBytes(to, from, bytes);
    return;
  }
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t middle = (bytes - head) / kPiece * kPiece;
  copyBytes(to, from, head);
  HWY_DYNAMIC_DISPATCH(copies::stream)(to + head, from + head, middle);
  copyBytes(to + head + middle, from + head + middle, bytes - head - middle);
}

}  // namespace unisono
#endif
