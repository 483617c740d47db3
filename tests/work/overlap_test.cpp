#include "work/overlap.hpp"

#include <array>
#include <bitset>
#include <gmock/gmock.h>
#include <random>
#include <vector>

namespace unisono::detail {
namespace {

using ::testing::Optional;
using ::testing::Pair;

constexpr std::size_t kArena = 256;
constexpr std::size_t kNoInput = 99;

/// Views of one piece of memory, which start at `first` floats.
class OverlapTest : public ::testing::Test {
 protected:
  Tensor view(std::size_t first, Dims sizes, Dims strides) {
    return {memory_.data() + first, DType::FLOAT32, std::move(sizes), std::move(strides)};
  }
  Tensor row(std::size_t first, std::int64_t count) { return view(first, {count}, {1}); }

  std::array<float, kArena> memory_{};
};

/// The bytes of a view, one by one: what shareMemory() must find without walking through them.
std::bitset<kArena> bytesOf(const Tensor& tensor, const std::byte* arena) {
  const auto width = static_cast<std::int64_t>(elementSize(tensor.dtype()));
  std::bitset<kArena> bytes;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    std::int64_t offset = tensor.isContiguous() ? i : 0;
    std::int64_t left = i;
    for (std::size_t d = tensor.strides().size(); d-- > 0; left /= tensor.sizes()[d]) {
      offset += left % tensor.sizes()[d] * tensor.strides()[d];
    }
    const std::int64_t at = tensor.dataAs<std::byte>() - arena + offset * width;
    for (std::int64_t byte = 0; byte < width; ++byte) {
      bytes.set(static_cast<std::size_t>(at + byte));
    }
  }
  return bytes;
}

/// A view of up to three dimensions anywhere in the arena; aligned or not, as views of bytes are.
Tensor anyView(std::mt19937& random, std::byte* arena) {
  const auto upTo = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most + 1));
  };
  constexpr std::array kTypes = {DType::INT8, DType::FLOAT16, DType::FLOAT32, DType::COMPLEX64};
  for (;;) {
    const DType type = kTypes[random() % kTypes.size()];
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    for (int d = upTo(2); d >= 0; --d) {
      sizes.push_back(1 + upTo(3));
      strides.push_back(upTo(24) - 8);
    }
    const Tensor tensor(arena + random() % kArena, type, Dims(sizes), Dims(strides));
    const std::span<const std::byte> extent = tensor.extent();
    if (extent.data() >= arena && extent.data() + extent.size() <= arena + kArena) {
      return tensor;
    }
  }
}

TEST_F(OverlapTest, FindsWhatWalkingThroughTheElementsFinds) {
  std::array<std::byte, kArena> arena{};
  std::mt19937 random(20261117);
  int sharing = 0;
  int crossing = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Tensor a = anyView(random, arena.data());
    const Tensor b = anyView(random, arena.data());
    const bool truth = (bytesOf(a, arena.data()) & bytesOf(b, arena.data())).any();
    ASSERT_EQ(truth, shareMemory(a, b))
        << ::testing::PrintToString(bytesOf(a, arena.data())) << "\n"
        << ::testing::PrintToString(bytesOf(b, arena.data()));
    ASSERT_EQ(truth, shareMemory(b, a));
    sharing += truth ? 1 : 0;
    crossing += !truth && a.mayOverlap(b) ? 1 : 0;
  }
  EXPECT_GT(sharing, 1000);
  EXPECT_GT(crossing, 1000) << "views that cross without a common byte";
}

TEST_F(OverlapTest, ColumnsAreApartAndMeetTheirRows) {
  const Tensor columns01 = view(0, {8, 2}, {5, 1});
  const Tensor columns34 = view(3, {8, 2}, {5, 1});
  const Tensor columns12 = view(1, {8, 2}, {5, 1});
  EXPECT_FALSE(shareMemory(columns01, columns34));
  EXPECT_TRUE(shareMemory(columns01, columns12));
  EXPECT_TRUE(shareMemory(columns34, row(20, 5)));
  EXPECT_FALSE(shareMemory(columns34, row(20, 3)));
}

TEST_F(OverlapTest, EvenAndOddPlanesAreApart) {
  EXPECT_FALSE(shareMemory(view(0, {4, 2, 5}, {30, 10, 1}), view(5, {4, 2, 5}, {30, 10, 1})));
  EXPECT_TRUE(shareMemory(view(0, {4, 2, 6}, {30, 10, 1}), view(5, {4, 2, 5}, {30, 10, 1})));
}

TEST_F(OverlapTest, AViewThatRunsBackwardsBeginsAtItsLastElement) {
  EXPECT_TRUE(shareMemory(view(18, {10}, {-2}), row(4, 1)));
  EXPECT_FALSE(shareMemory(view(18, {10}, {-2}), row(5, 1)));
  EXPECT_FALSE(shareMemory(view(18, {10}, {-2}), view(19, {10}, {-2})));
}

TEST_F(OverlapTest, AnExpandedElementIsOnePlace) {
  EXPECT_TRUE(shareMemory(view(7, {100}, {0}), row(4, 4)));
  EXPECT_FALSE(shareMemory(view(8, {100}, {0}), row(4, 4)));
}

/// Nothing is read, so there need be no memory of such sizes.
TEST_F(OverlapTest, LargeViewsOfOneMatrixAreToldApartExactly) {
  constexpr std::int64_t kWide = 100'003;
  for (const std::size_t first : {1UL, 17UL, 255UL}) {
    EXPECT_FALSE(shareMemory(view(0, {90'000}, {kWide}), view(first, {90'000}, {kWide})));
  }
  EXPECT_TRUE(shareMemory(view(0, {90'000}, {kWide}), view(3, {kWide}, {kWide - 1})));
}

TEST_F(OverlapTest, WhatCannotBeToldApartInTimeIsNotWrittenTo) {
  // Steps of two primes: none of 10^5 places of the one is among those of the other that are near.
  EXPECT_TRUE(shareMemory(view(0, {40'000}, {100'003}), view(1, {40'000}, {99'991})));
}

TEST_F(OverlapTest, FindsAPairHoweverManyLieBetween) {
  std::vector<Tensor> outputs = {view(0, {8}, {9})};  // every ninth, to 63
  for (std::size_t i = 1; i < 9; ++i) {
    outputs.push_back(view(i, {7}, {9}));
  }
  EXPECT_EQ(sharedMemory(outputs, false), std::nullopt);
  outputs.push_back(row(63, 1));
  EXPECT_THAT(sharedMemory(outputs, false), Optional(Pair(0, 9)));
  outputs.back() = row(64, 4);
  EXPECT_EQ(sharedMemory(outputs, false), std::nullopt);
}

TEST_F(OverlapTest, TwinsMayBeAllowedButNothingElse) {
  const Tensor column = view(2, {5}, {10});
  EXPECT_EQ(sharedMemory(std::vector{column, row(0, 2), column}, true), std::nullopt);
  EXPECT_THAT(sharedMemory(std::vector{column, row(0, 2), column}, false), Optional(Pair(0, 2)));
  EXPECT_THAT(sharedMemory(std::vector{column, column, row(12, 1)}, true), Optional(Pair(0, 2)));
}

TEST_F(OverlapTest, InputsMayShareMemoryButNotWithOutputs) {
  const std::vector inputs = {view(0, {6}, {4}), view(0, {6}, {4}), view(2, {6}, {4})};
  std::vector outputs = {view(1, {6}, {4}), view(3, {6}, {4}), row(30, 4)};
  EXPECT_EQ(sharedMemory(inputs, outputs, kNoInput), std::nullopt);
  outputs[1] = row(13, 3);
  EXPECT_THAT(sharedMemory(inputs, outputs, kNoInput), Optional(Pair(2, 1)));
  EXPECT_EQ(sharedMemory(inputs, outputs, 2), std::nullopt) << "this one is not looked at";
}

}  // namespace
}  // namespace unisono::detail
