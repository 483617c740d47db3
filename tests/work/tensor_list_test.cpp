#include "unisono/work/tensor_list.hpp"

#include <gtest/gtest.h>

namespace unisono {
namespace {

class TensorListTest : public ::testing::Test {
 protected:
  std::vector<float> values_ = std::vector<float>(6);
  std::shared_ptr<int> owner_ = std::make_shared<int>(0);
  Tensor tensor(std::int64_t count) {
    return {values_.data(), DType::FLOAT32, {count}, {}, owner_};
  }
};

TEST_F(TensorListTest, HoldsNoneOneOrMany) {
  const TensorList none;
  const TensorList one = tensor(1);
  const TensorList three = {tensor(1), tensor(2), tensor(3)};
  const TensorList fromEmpty = std::vector<Tensor>{};
  const TensorList fromOne = std::vector<Tensor>{tensor(4)};

  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(fromEmpty.empty());
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].numel(), 1);
  ASSERT_EQ(three.size(), 3U);
  EXPECT_EQ(three[2].numel(), 3);
  ASSERT_EQ(fromOne.size(), 1U);
  EXPECT_EQ(fromOne[0].numel(), 4);
}

TEST_F(TensorListTest, KeepsOneTensorInPlace) {
  const TensorList one = tensor(1);
  const auto* const first = reinterpret_cast<const std::byte*>(&one[0]);
  const auto* const list = reinterpret_cast<const std::byte*>(&one);

  EXPECT_LT(static_cast<std::size_t>(first - list), sizeof(TensorList));
}

TEST_F(TensorListTest, GrowsByAppending) {
  TensorList list;
  for (std::int64_t i = 0; i < 5; ++i) {
    list.append(tensor(i));
  }

  ASSERT_EQ(list.size(), 5U);
  std::int64_t expected = 0;
  for (const Tensor& each : list) {
    EXPECT_EQ(each.numel(), expected++);
  }
}

TEST_F(TensorListTest, CopiesAndMovesBetweenAllSizes) {
  const TensorList samples[] = {{}, tensor(1), {tensor(1), tensor(2)}};
  for (const TensorList& from : samples) {
    for (const TensorList& before : samples) {
      TensorList copied = before;
      copied = from;
      ASSERT_EQ(copied.size(), from.size());
      TensorList moved = before;
      moved = std::move(copied);
      ASSERT_EQ(moved.size(), from.size());
      EXPECT_TRUE(copied.empty());  // NOLINT: said of a list that was moved from
      for (std::size_t i = 0; i < from.size(); ++i) {
        EXPECT_EQ(moved[i].numel(), from[i].numel());
      }
    }
  }
}

TEST_F(TensorListTest, LetsGoOfWhatItsTensorsKeepAlive) {
  {
    TensorList list = {tensor(1), tensor(2)};
    TensorList other = std::move(list);
    list = tensor(3);
    EXPECT_EQ(owner_.use_count(), 4);
    other.clear();
    EXPECT_EQ(owner_.use_count(), 2);
  }
  EXPECT_EQ(owner_.use_count(), 1);
}

}  // namespace
}  // namespace unisono
