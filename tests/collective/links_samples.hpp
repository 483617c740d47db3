// What tests of algorithms between hosts reduce and move.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/str.hpp"
#include "collective/block_samples.hpp"
#include "collective/links/stepwise.hpp"
#include "reduction/samples.hpp"
#include "support/loopback_world.hpp"

namespace unisono::test {

/// A rank's contribution: small whole numbers, whose sums are exact in any order.
inline Bytes wholeNumbers(DType type, int rank, std::size_t elements) {
  Bytes bytes(elements * elementSize(type));
  visit(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < elements; ++i) {
      const auto value = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 61) -
                         (std::is_unsigned_v<T> ? 0.F : 30.F);
      const T element = [&] {
        if constexpr (std::is_arithmetic_v<T>) {
          return static_cast<T>(value);
        } else {
          return T(value);
        }
      }();
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return bytes;
}

/// Those of all ranks.
template <typename Make>
std::vector<Bytes> ofEveryRank(int ranks, Make make) {
  std::vector<Bytes> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(make(rank));
  }
  return all;
}

/// Elements `begin` to `end` of the reduction of `all`, in the order of the ring from rank `first`.
inline Bytes reduced(const std::vector<Bytes>& all, const Reduction& reduction, int first,
                     std::size_t begin, std::size_t end) {
  const std::size_t width = reduction.elementSize();
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sources.push_back(all[(static_cast<std::size_t>(first) + i) % all.size()].data() +
                      begin * width);
  }
  Bytes result((end - begin) * width);
  reduction.reduce(result.data(), sources, end - begin);
  return result;
}
inline Bytes reduced(const std::vector<Bytes>& all, const Reduction& reduction) {
  return reduced(all, reduction, 0, 0, all[0].size() / reduction.elementSize());
}

/// Ranks, and what their channels hold.
struct LinkShape {
  int ranks;
  std::size_t room;
};
inline std::vector<LinkShape> linkShapes() {
  std::vector<LinkShape> shapes;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
    shapes.push_back({ranks, 0});
  }
  for (const int ranks : {3, 4, 5}) {
    shapes.push_back({ranks, 100});
    shapes.push_back({ranks, SIZE_MAX});
  }
  return shapes;
}
inline std::string nameOfShape(const LinkShape& shape) {
  return str(shape.ranks, shape.room == 0          ? "WithoutRoom"
                          : shape.room == SIZE_MAX ? "WithRoom"
                                                   : "WithLittleRoom");
}

}  // namespace unisono::test
