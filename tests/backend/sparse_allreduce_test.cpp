// What a sparse all_reduce gives, and what it refuses.
#include <gmock/gmock.h>
#include <numeric>
#include <random>

#include "unisono/tensor/half.hpp"

#include "backend/native/sparse_sum.hpp"
#include "backend/native_world.hpp"
#include "support/effort.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Owns what a sparse tensor points to. `indices` has one row per sparse dimension.
template <typename T>
struct Coo {
  std::vector<std::int64_t> indices = {};
  std::vector<T> values = {};
  Dims sizes;
  std::int64_t sparseDims = 1;
  std::vector<std::int64_t> denseSizes = {};

  SparseTensor tensor() {
    const std::int64_t entries =
        sparseDims == 0 ? 0 : static_cast<std::int64_t>(indices.size()) / sparseDims;
    std::vector<std::int64_t> valueSizes{entries};
    valueSizes.insert(valueSizes.end(), denseSizes.begin(), denseSizes.end());
    return {Tensor(indices.data(), DType::INT64, {sparseDims, entries}),
            Tensor(values.data(), kDType<T>, Dims(std::span<const std::int64_t>(valueSizes))),
            sizes};
  }
};

template <typename T>
std::vector<T> elementsOf(const Tensor& tensor) {
  EXPECT_EQ(tensor.dtype(), kDType<T>);
  const T* data = tensor.dataAs<T>();
  return {data, data + tensor.numel()};
}

TensorList sumOf(NativeBackend& rank, SparseTensor tensor, bool asyncOp = true) {
  const WorkPtr work = rank.allreduceSparse(std::move(tensor), {.asyncOp = asyncOp});
  work->wait();
  return work->result();
}

class SparseAllreduceTest : public ::testing::TestWithParam<int> {
 protected:
  NativeWorld world_{GetParam()};
  const int n_ = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Ranks, SparseAllreduceTest, ::testing::Values(1, 2, 3, 5));

TEST_P(SparseAllreduceTest, GivesEveryPlaceOnceInOrderWithTheSumOfAllRanks) {
  world_.run([&](NativeBackend& rank) {
    // Row 9 comes from everybody, twice; row r from rank r.
    const auto r = static_cast<float>(rank.rank());
    Coo<float> mine{.indices = {9, rank.rank(), 9},
                    .values = {1, 2, r, -r, 3, 4},
                    .sizes = {10, 2},
                    .denseSizes = {2}};
    for (const bool asyncOp : {true, false}) {
      const TensorList sum = sumOf(rank, mine.tensor(), asyncOp);

      std::vector<std::int64_t> places(static_cast<std::size_t>(n_));
      std::iota(places.begin(), places.end(), 0);
      places.push_back(9);
      ASSERT_EQ(sum.size(), 2U);
      EXPECT_EQ(elementsOf<std::int64_t>(sum[0]), places);
      EXPECT_EQ(sum[0].sizes(), (Dims{1, n_ + 1}));
      EXPECT_EQ(sum[1].sizes(), (Dims{n_ + 1, 2}));
      const std::vector<float> values = elementsOf<float>(sum[1]);
      for (std::size_t i = 0; i < static_cast<std::size_t>(n_); ++i) {
        EXPECT_EQ(values[2 * i], static_cast<float>(i));
        EXPECT_EQ(values[2 * i + 1], -static_cast<float>(i));
      }
      EXPECT_EQ(values[places.size() * 2 - 2], 4.0F * static_cast<float>(n_));
      EXPECT_EQ(values[places.size() * 2 - 1], 6.0F * static_cast<float>(n_));
    }
    EXPECT_THAT(mine.values, ElementsAre(1, 2, r, -r, 3, 4)) << "what is given is left alone";
  });
}

TEST_P(SparseAllreduceTest, IsTheDenseSumForManyEntriesOfUnevenNumber) {
  constexpr int kRows = test::effort(300, 60);
  constexpr int kColumns = 70;
  constexpr unsigned kEntries = test::effort(30'000U, 6'000U);
  world_.run([&](NativeBackend& rank) {
    std::mt19937 random(static_cast<unsigned>(rank.rank()));
    const std::size_t entries =
        rank.rank() == 1 ? 0 : kEntries * static_cast<unsigned>(rank.rank() + 1);
    Coo<std::int64_t> mine{.sizes = {kRows, kColumns}, .sparseDims = 2};
    std::vector<std::int64_t> dense(kRows * kColumns);
    mine.indices.resize(2 * entries);
    for (std::size_t i = 0; i < entries; ++i) {
      const std::int64_t row = mine.indices[i] = random() % kRows;
      const std::int64_t column = mine.indices[entries + i] = random() % kColumns;
      mine.values.push_back(static_cast<std::int64_t>(random()));
      dense[static_cast<std::size_t>(row * kColumns + column)] += mine.values.back();
    }
    rank.allreduce({Tensor(dense)}, {.asyncOp = false})->wait();
    const TensorList sum = sumOf(rank, mine.tensor());

    const auto indices = elementsOf<std::int64_t>(sum[0]);
    const auto values = elementsOf<std::int64_t>(sum[1]);
    std::int64_t before = -1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t at = indices[i] * kColumns + indices[values.size() + i];
      ASSERT_GT(at, before);
      ASSERT_EQ(values[i], dense[static_cast<std::size_t>(at)]);
      dense[static_cast<std::size_t>(at)] = 0;
      before = at;
    }
    ASSERT_THAT(dense, ::testing::Each(0)) << "no place is left out";
  });
}

TEST_P(SparseAllreduceTest, AddsInTheOrderOfTheRanksSoThatAllHaveTheSameBits) {
  const auto valueOf = [](int rank) {
    return rank % 2 == 0 ? 1.0e8F / static_cast<float>(rank + 1) : -3.3F;
  };
  float right = valueOf(0);
  for (int rank = 1; rank < n_; ++rank) {
    right += valueOf(rank);
  }
  world_.run([&](NativeBackend& rank) {
    Coo<float> mine{.indices = {4}, .values = {valueOf(rank.rank())}, .sizes = {5}};
    EXPECT_THAT(elementsOf<float>(sumOf(rank, mine.tensor())[1]), ElementsAre(right));
  });
}

TEST_P(SparseAllreduceTest, NothingFromAnybodyIsNothing) {
  world_.run([&](NativeBackend& rank) {
    Coo<float> mine{.sizes = {10, 10, 3}, .sparseDims = 2, .denseSizes = {3}};
    const TensorList sum = sumOf(rank, mine.tensor());

    EXPECT_EQ(sum[0].sizes(), (Dims{2, 0}));
    EXPECT_EQ(sum[1].sizes(), (Dims{0, 3}));
  });
}

TEST_P(SparseAllreduceTest, StridedViewsAreRead) {
  world_.run([&](NativeBackend& rank) {
    std::vector<std::int64_t> indices{1, 7, 2, 5};  // one entry per row: (1, 7), (2, 5)
    std::vector<double> values{10, -1, 20, -1};     // every second one
    const TensorList sum = sumOf(rank, {Tensor(indices.data(), DType::INT64, {2, 2}, {1, 2}),
                                        Tensor(values.data(), DType::FLOAT64, {2}, {2}),
                                        {8, 8}});

    EXPECT_THAT(elementsOf<std::int64_t>(sum[0]), ElementsAre(1, 2, 7, 5));
    EXPECT_THAT(elementsOf<double>(sum[1]), ElementsAre(10 * n_, 20 * n_));
  });
}

TEST(SparseAllreduceErrorTest, SizesThatDifferAreToldToAllAndTheGroupGoesOn) {
  NativeWorld world(3);
  const auto thrown = world.outcomes([](NativeBackend& rank) {
    Coo<float> mine{.indices = {1}, .values = {1}, .sizes = {rank.rank() == 2 ? 11 : 10}};
    sumOf(rank, mine.tensor());
  });

  for (const std::exception_ptr& each : thrown) {
    EXPECT_THAT(textOfThrown(each),
                AllOf(HasSubstr("Sparse dimensions do not match: rank 0 has (10) with 1 sparse, "
                                "rank 2 has (11) with 1 sparse"),
                      HasSubstr("[MISMATCH]"), HasSubstr("culprits=[2]")));
  }
  world.run([](NativeBackend& rank) { rank.barrier({.asyncOp = false})->wait(); });
}

TEST(SparseAllreduceErrorTest, AnIndexOutsideIsToldToAllAndTheGroupGoesOn) {
  NativeWorld world(3);
  for (const std::int64_t wrong : {10, -1}) {
    const auto thrown = world.outcomes([&](NativeBackend& rank) {
      Coo<float> mine{.indices = {3, 4, 5, rank.rank() == 1 ? wrong : 9},
                      .values = {1, 2},
                      .sizes = {20, 10},
                      .sparseDims = 2};
      sumOf(rank, mine.tensor());
    });

    for (const std::exception_ptr& each : thrown) {
      EXPECT_THAT(textOfThrown(each),
                  AllOf(HasSubstr("rank 1 has the index " + std::to_string(wrong) +
                                  " in dimension 1, whose size is 10"),
                        HasSubstr("[USAGE]"), HasSubstr("culprits=[1]"), HasSubstr("DO: ")));
    }
  }
  world.run([](NativeBackend& rank) { rank.barrier({.asyncOp = false})->wait(); });
}

TEST(SparseAllreduceErrorTest, DifferentTypesDoNotMatch) {
  NativeWorld world(2);
  const auto thrown = world.outcomes([](NativeBackend& rank) {
    Coo<float> floats{.indices = {1}, .values = {1}, .sizes = {10}};
    Coo<double> doubles{.indices = {1}, .values = {1}, .sizes = {10}};
    sumOf(rank, rank.rank() == 0 ? floats.tensor() : doubles.tensor());
  });

  EXPECT_THAT(textOfThrown(thrown[0]),
              AllOf(HasSubstr("[MISMATCH]"), HasSubstr("all_reduce_sparse(float32[1], SUM)"),
                    HasSubstr("all_reduce_sparse(float64[1], SUM)")));
}

TEST(SparseSumTest, HalvesAreRoundedOnce) {
  const std::int64_t place = 3;
  std::vector<Half> values{Half(2048.0F), Half(1.0F), Half(1.0F)};
  std::vector<SparsePart> parts;
  for (const Half& value : values) {
    parts.push_back({reinterpret_cast<const std::byte*>(&place),
                     reinterpret_cast<const std::byte*>(&value), 1});
  }
  const SparseTensor sum = sumSparse(parts, DType::FLOAT16, {5}, 1);

  ASSERT_EQ(sum.values.numel(), 1);
  EXPECT_EQ(static_cast<float>(*sum.values.dataAs<Half>()), 2050.0F);
}

TEST(SparseSumTest, OnePlaceMayHaveThousandsOfEntriesAndEntriesNoElements) {
  std::vector<std::int64_t> indices(5000, 2);
  std::vector<std::int32_t> values(5000);
  std::iota(values.begin(), values.end(), 1);
  const SparsePart part{reinterpret_cast<const std::byte*>(indices.data()),
                        reinterpret_cast<const std::byte*>(values.data()), values.size()};
  const SparseTensor sum = sumSparse(std::span(&part, 1), DType::INT32, {3}, 1);
  EXPECT_THAT(elementsOf<std::int32_t>(sum.values), ElementsAre(5000 * 5001 / 2));

  const SparseTensor empty = sumSparse(std::span(&part, 1), DType::INT32, {3, 0}, 1);
  EXPECT_THAT(elementsOf<std::int64_t>(empty.indices), ElementsAre(2));
  EXPECT_EQ(empty.values.sizes(), (Dims{1, 0}));
}

TEST(SparseSumTest, WithoutSparseDimensionsThereIsOnePlace) {
  std::vector<float> values{1, 2, 3};
  const SparsePart part{nullptr, reinterpret_cast<const std::byte*>(values.data()), 3};
  const SparseTensor sum = sumSparse(std::span(&part, 1), DType::FLOAT32, {}, 0);

  EXPECT_EQ(sum.indices.sizes(), (Dims{0, 1}));
  EXPECT_THAT(elementsOf<float>(sum.values), ElementsAre(6));
}

}  // namespace
}  // namespace unisono
