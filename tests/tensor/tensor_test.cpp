#include "unisono/tensor/tensor.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::HasSubstr;

TEST(TensorTest, OfAVectorIsARowOfItsElements) {
  std::vector<float> values(7);
  const Tensor tensor(values);

  EXPECT_EQ(tensor.data(), values.data());
  EXPECT_EQ(tensor.dtype(), DType::FLOAT32);
  EXPECT_EQ(tensor.numel(), 7);
  EXPECT_EQ(tensor.bytes(), 28U);
  EXPECT_TRUE(tensor.isContiguous());
  EXPECT_EQ(tensor.describe(), "float32[7]");
}

TEST(TensorTest, NothingIsNoTensorAndAnEmptyOneIs) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor().numel(), 0);

  const Tensor empty(nullptr, DType::INT64, {3, 0, 2});
  EXPECT_TRUE(empty.defined());
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(empty.bytes(), 0U);
}

TEST(TensorTest, WithoutSizesIsOneElement) {
  double value = 1;
  EXPECT_EQ(Tensor(&value, DType::FLOAT64, {}).numel(), 1);
}

TEST(TensorTest, ManyDimensionsSurviveCopyingAndMoving) {
  std::vector<std::int8_t> values(64);
  const Tensor six(values.data(), DType::INT8, {2, 2, 2, 2, 2, 2});
  Tensor copy = six;
  const Tensor moved = std::move(copy);
  copy = six;

  EXPECT_EQ(moved.sizes(), (Dims{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(copy.sizes(), six.sizes());
  copy = Tensor(values);
  EXPECT_EQ(copy.sizes(), Dims{64});
}

TEST(TensorTest, RefusesWhatCannotBe) {
  float value = 0;
  EXPECT_THAT(textOf<UsageError>([&] {
                Tensor(&value, DType::FLOAT32, {2, -1});
              }),
              HasSubstr("size -1"));
  EXPECT_THAT(textOf<UsageError>([&] { Tensor(nullptr, DType::FLOAT32, {2}); }),
              HasSubstr("address is null"));
  EXPECT_THAT(textOf<UsageError>([&] {
                Tensor(&value, DType::FLOAT32, {1L << 40, 1L << 40});
              }),
              HasSubstr("larger than any memory"));
  EXPECT_THAT(textOf<UsageError>([&] {
                Tensor(&value, DType::FLOAT32, {1}, {1, 1});
              }),
              HasSubstr("2 strides"));
}

TEST(TensorTest, StridesThatSayNothingNewAreForgotten) {
  std::vector<float> values(12);
  EXPECT_TRUE(Tensor(values.data(), DType::FLOAT32, {3, 4}, {4, 1}).isContiguous());
  EXPECT_TRUE(Tensor(values.data(), DType::FLOAT32, {3, 1, 4}, {4, 99, 1}).isContiguous());
  EXPECT_TRUE(Tensor(values.data(), DType::FLOAT32, {1}, {7}).isContiguous());
  EXPECT_FALSE(Tensor(values.data(), DType::FLOAT32, {4, 3}, {1, 4}).isContiguous());
}

TEST(TensorTest, KnowsWhichBytesItReaches) {
  std::vector<float> values(12);
  const Tensor columns(values.data() + 1, DType::FLOAT32, {3, 2}, {4, 1});
  EXPECT_EQ(columns.extent().data(), static_cast<void*>(values.data() + 1));
  EXPECT_EQ(columns.extent().size(), 10 * sizeof(float));

  const Tensor backwards(values.data() + 11, DType::FLOAT32, {12}, {-1});
  EXPECT_EQ(backwards.extent().data(), static_cast<void*>(values.data()));
  EXPECT_EQ(backwards.extent().size(), 12 * sizeof(float));
}

TEST(TensorTest, KnowsWhetherTwoElementsShareMemory) {
  std::vector<float> values(12);
  const auto view = [&](Dims sizes, Dims strides) {
    return Tensor(values.data(), DType::FLOAT32, std::move(sizes), std::move(strides));
  };

  EXPECT_FALSE(view({4, 3}, {1, 4}).overlapsItself());
  EXPECT_FALSE(view({3, 2}, {4, 1}).overlapsItself());
  EXPECT_TRUE(view({5}, {0}).overlapsItself()) << "expanded";
  EXPECT_TRUE(view({3, 3}, {2, 1}).overlapsItself()) << "a sliding window";
  EXPECT_FALSE(view({1, 3}, {0, 4}).overlapsItself()) << "one element is reached once";
}

TEST(TensorTest, KnowsWhetherTwoViewsMayShareMemory) {
  std::vector<float> values(12);
  const Tensor all(values);

  EXPECT_TRUE(all.mayOverlap(slice(all, 11, 1)));
  EXPECT_FALSE(slice(all, 0, 6).mayOverlap(slice(all, 6, 6)));
}

TEST(TensorTest, ASliceIsPartOfTheWhole) {
  std::vector<std::int32_t> values(10);
  const Tensor part = slice(Tensor(values), 3, 4);

  EXPECT_EQ(part.data(), values.data() + 3);
  EXPECT_EQ(part.numel(), 4);
  EXPECT_THROW(slice(Tensor(values), 7, 4), UsageError);
  EXPECT_THROW(slice(Tensor(values), -1, 4), UsageError);
}

TEST(TensorTest, KeepsAliveWhatItWasGiven) {
  auto owner = std::make_shared<std::vector<float>>(4);
  std::weak_ptr<std::vector<float>> watched = owner;
  Tensor tensor(owner->data(), DType::FLOAT32, {4}, Device{}, owner);
  owner.reset();

  EXPECT_FALSE(watched.expired());
  tensor = Tensor();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace unisono
