#include "backend/native/sparse_sum.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "reduction/reduction.hpp"

namespace unisono {
namespace {

/// Coordinates; those of dimensions that are not there are 0.
using Place = std::array<std::int64_t, SparseTensor::kMostSparseDims>;

struct Entry {
  Place place;
  const std::byte* row;
};

std::int64_t indexAt(const SparsePart& part, std::size_t dimension, std::size_t entry) {
  std::int64_t index = 0;
  std::memcpy(&index, part.indices + (dimension * part.entries + entry) * sizeof index,
              sizeof index);
  return index;
}

std::vector<Entry> sortedEntries(std::span<const SparsePart> parts, std::size_t sparseDims,
                                 std::size_t rowBytes) {
  std::vector<Entry> entries;
  for (const SparsePart& part : parts) {
    for (std::size_t i = 0; i < part.entries; ++i) {
      Entry entry{.place = {}, .row = part.values + i * rowBytes};
      for (std::size_t dimension = 0; dimension < sparseDims; ++dimension) {
        entry.place[dimension] = indexAt(part, dimension, i);
      }
      entries.push_back(entry);
    }
  }
  // Stable: entries of one place stay in the order of the ranks.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.place < b.place; });
  return entries;
}

std::size_t countPlaces(const std::vector<Entry>& sorted) {
  std::size_t places = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    places += i == 0 || sorted[i].place != sorted[i - 1].place ? 1 : 0;
  }
  return places;
}

std::size_t productOf(std::span<const std::int64_t> sizes) {
  std::size_t product = 1;
  for (const std::int64_t size : sizes) {
    product *= static_cast<std::size_t>(size);
  }
  return product;
}

Tensor makeTensor(DType type, std::span<const std::int64_t> sizes) {
  const std::shared_ptr<std::byte[]> memory(new std::byte[productOf(sizes) * elementSize(type)]);
  return {memory.get(), type, Dims(sizes), Device{},
          std::shared_ptr<const void>(memory, memory.get())};
}

}  // namespace

SparseTensor sumSparse(std::span<const SparsePart> parts, DType type, const Dims& sizes,
                       std::size_t sparseDims) {
  const std::span<const std::int64_t> denseSizes = sizes.span().subspan(sparseDims);
  const std::size_t rowElements = productOf(denseSizes);
  const std::size_t rowBytes = rowElements * elementSize(type);
  const std::vector<Entry> entries = sortedEntries(parts, sparseDims, rowBytes);
  const std::size_t places = countPlaces(entries);
  std::vector<std::int64_t> valueSizes{static_cast<std::int64_t>(places)};
  valueSizes.insert(valueSizes.end(), denseSizes.begin(), denseSizes.end());
  const std::array indexSizes{static_cast<std::int64_t>(sparseDims), valueSizes[0]};
  SparseTensor sum{makeTensor(DType::INT64, indexSizes), makeTensor(type, valueSizes), sizes};

  const Reduction add = Reduction::of(type, ReduceOp::SUM, 1);
  auto* const indices = sum.indices.dataAs<std::int64_t>();
  auto* row = sum.values.dataAs<std::byte>();
  std::vector<const std::byte*> sources;
  std::size_t at = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    sources.push_back(entries[i].row);
    if (i + 1 < entries.size() && entries[i + 1].place == entries[i].place) {
      continue;
    }
    add.reduce(row, sources, rowElements);
    for (std::size_t dimension = 0; dimension < sparseDims; ++dimension) {
      indices[dimension * places + at] = entries[i].place[dimension];
    }
    sources.clear();
    row += rowBytes;
    at += 1;
  }
  return sum;
}

WrongIndex findWrongIndex(const SparsePart& part, std::span<const std::int64_t> sparseSizes) {
  for (std::size_t dimension = 0; dimension < sparseSizes.size(); ++dimension) {
    for (std::size_t i = 0; i < part.entries; ++i) {
      const std::int64_t index = indexAt(part, dimension, i);
      if (index < 0 || index >= sparseSizes[dimension]) {
        return {static_cast<std::int64_t>(dimension), index};
      }
    }
  }
  return {};
}

}  // namespace unisono
