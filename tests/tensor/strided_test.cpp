#include "tensor/strided.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

namespace unisono {
namespace {

/// A view into a store of elements; `first` is where the element of all zero indices is.
struct View {
  Dims sizes;
  Dims strides;
  std::size_t first;
};

constexpr std::size_t kStore = 4000;  // elements; more than any of the views reaches

/// Views of all kinds. The ones that repeat elements can only be read.
std::vector<View> views(bool writable) {
  std::vector<View> all = {
      {{5}, {3}, 10},                   // every third
      {{7}, {-1}, 20},                  // backwards
      {{4, 6}, {10, 1}, 0},             // part of each row
      {{6, 4}, {1, 6}, 3},              // transposed
      {{3, 4, 5}, {40, 10, 2}, 1},      // nothing adjacent
      {{3, 4, 5}, {60, 10, 1}, 1},      // rows adjacent
      {{3, 4, 5}, {40, 5, 1}, 1},       // two dimensions in one row
      {{2, 3, 4}, {-12, -4, -1}, 100},  // all backwards
      {{4, 1, 3}, {6, 999, 1}, 0},      // the stride of one element does not matter
      {{2, 3, 2, 3, 2, 3}, {600, 200, 60, 20, 6, 2}, 0},
      {{1, 17, 1}, {5, 2, 5}, 9},
      {{0, 4}, {10, 2}, 0},
      {{3, 33}, {100, -3}, 200},
  };
  if (!writable) {
    all.push_back({{3, 4}, {0, 1}, 5});  // a row three times
    all.push_back({{4, 3}, {1, 0}, 5});  // each element three times
    all.push_back({{5, 4}, {1, 1}, 5});  // a window that moves
    all.push_back({{9}, {0}, 5});
  }
  return all;
}

/// Where in the store the elements of the view are, in C order.
std::vector<std::size_t> positions(const View& view) {
  const std::size_t axes = view.sizes.size();
  std::size_t count = 1;
  for (const std::int64_t size : view.sizes) {
    count *= static_cast<std::size_t>(size);
  }
  std::vector<std::size_t> found;
  for (std::size_t n = 0; n < count; ++n) {
    auto rest = static_cast<std::int64_t>(n);
    auto at = static_cast<std::int64_t>(view.first);
    for (std::size_t axis = axes; axis-- > 0;) {
      at += rest % view.sizes[axis] * view.strides[axis];
      rest /= view.sizes[axis];
    }
    found.push_back(static_cast<std::size_t>(at));
  }
  return found;
}

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    all[i] = static_cast<std::byte>(i * 31 + i / 255);
  }
  return all;
}

class StridedTest : public ::testing::TestWithParam<DType> {};

TEST_P(StridedTest, PacksTheElementsInCOrder) {
  const std::size_t width = elementSize(GetParam());
  std::vector<std::byte> store = numbered(kStore * width);
  for (const View& view : views(false)) {
    const Tensor tensor(store.data() + view.first * width, GetParam(), view.sizes, view.strides);
    const std::vector<std::size_t> expected = positions(view);
    std::vector<std::byte> row(tensor.bytes() + 1, std::byte{0xEE});

    pack(row.data(), tensor);

    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::memcmp(&row[i * width], &store[expected[i] * width], width), 0)
          << "element " << i << " of " << tensor.describe();
    }
    EXPECT_EQ(row.back(), std::byte{0xEE}) << tensor.describe();
  }
}

TEST_P(StridedTest, UnpacksToTheElementsAndNothingBetweenThem) {
  const std::size_t width = elementSize(GetParam());
  for (const View& view : views(true)) {
    std::vector<std::byte> store(kStore * width, std::byte{0xEE});
    std::vector<std::byte> expected = store;
    const Tensor tensor(store.data() + view.first * width, GetParam(), view.sizes, view.strides);
    const std::vector<std::byte> row = numbered(tensor.bytes());
    const std::vector<std::size_t> where = positions(view);
    for (std::size_t i = 0; i < where.size(); ++i) {
      std::memcpy(&expected[where[i] * width], &row[i * width], width);
    }

    unpack(tensor, row.data());

    ASSERT_EQ(store, expected) << tensor.describe();
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, StridedTest,
                         ::testing::Values(DType::INT8, DType::FLOAT16, DType::FLOAT32,
                                           DType::INT64, DType::COMPLEX128),
                         [](const auto& width) { return std::string(name(width.param)); });

TEST(StridedRowTest, ATensorInOneRowIsCopiedAsItIs) {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1.0F);
  std::vector<float> row(100);
  std::vector<float> back(100);

  pack(reinterpret_cast<std::byte*>(row.data()), Tensor(values));
  unpack(Tensor(back), reinterpret_cast<const std::byte*>(row.data()));

  EXPECT_EQ(row, values);
  EXPECT_EQ(back, values);
}

TEST(StridedRowTest, NothingAndOneElementAreFineToo) {
  float one = 3.0F;
  float copy = 0.0F;
  pack(nullptr, Tensor());
  unpack(Tensor(nullptr, DType::FLOAT32, Dims{0}), nullptr);
  pack(reinterpret_cast<std::byte*>(&copy), Tensor(&one, DType::FLOAT32, Dims{}));
  EXPECT_EQ(copy, 3.0F);
}

}  // namespace
}  // namespace unisono
