// Every operation that reduces, on every type: the bits of reducing in the order of the ranks,
// wherever the tensors lie.
#include <gtest/gtest.h>

#include "backend/native_world.hpp"
#include "base/str.hpp"
#include "collective/reduction_samples.hpp"

namespace unisono {
namespace {

using test::NativeWorld;

/// What a rank has at first, in memory of its own or registered: for others to reach directly.
Tensor laidOut(NativeBackend& rank, DType type, const std::vector<std::byte>& bytes,
               bool registered) {
  const auto elements = static_cast<std::int64_t>(bytes.size() / elementSize(type));
  Tensor tensor;
  if (registered) {
    tensor = rank.allocateTensor(elements, type);
  } else {
    auto memory = std::make_shared<std::vector<std::byte>>(bytes.size());
    tensor = Tensor(memory->data(), type, Dims{elements}, Device{}, memory);
  }
  std::copy(bytes.begin(), bytes.end(), tensor.dataAs<std::byte>());
  return tensor;
}

std::vector<std::byte> bytesOf(const Tensor& tensor) {
  return {tensor.dataAs<std::byte>(), tensor.dataAs<std::byte>() + tensor.bytes()};
}

class ReductionsTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  const int n_ = std::get<0>(GetParam());
  const bool registered_ = std::get<1>(GetParam());

  /// Half a sum is the sum of halves: none of the types rounds in between.
  std::vector<std::byte> right(DType type, ReduceOp op, std::size_t elements) const {
    std::vector<std::byte> all = test::expected(n_, elements, type, Reduction::of(type, op, n_));
    if (op == ReduceOp::PREMUL_SUM) {
      const std::vector<std::byte> sums = all;
      scale(type, all.data(), sums.data(), elements, op.factor());
    }
    return all;
  }

  /// All-reduce and reduce of `elements` elements, reduce-scatter of so many for each.
  void check(NativeBackend& rank, DType type, ReduceOp op, std::size_t elements) const {
    const std::string what = str(name(type), " ", name(op.type()), " ", elements);
    const int root = static_cast<int>(elements) % n_;
    const std::vector<std::byte> mine = test::contribution(rank.rank(), elements, type);
    const std::vector<std::byte> reduced = right(type, op, elements);

    const Tensor all = laidOut(rank, type, mine, registered_);
    rank.allreduce({all}, {.reduceOp = op, .asyncOp = false})->wait();
    ASSERT_EQ(bytesOf(all), reduced) << "all_reduce, " << what;

    const Tensor one = laidOut(rank, type, mine, registered_);
    rank.reduce({one}, {.reduceOp = op, .rootRank = root, .asyncOp = false})->wait();
    ASSERT_EQ(bytesOf(one), rank.rank() == root ? reduced : mine) << "reduce, " << what;

    const std::size_t whole = elements * static_cast<std::size_t>(n_);
    const Tensor in =
        laidOut(rank, type, test::contribution(rank.rank(), whole, type), registered_);
    const std::size_t part = elements * elementSize(type);
    const bool inPlace = elements % 4 == 3;
    const Tensor out = inPlace ? slice(in, rank.rank() * static_cast<std::int64_t>(elements),
                                       static_cast<std::int64_t>(elements))
                               : laidOut(rank, type, std::vector<std::byte>(part), false);
    rank.reduceScatterSingle(out, in, {.reduceOp = op, .asyncOp = false})->wait();
    const std::vector<std::byte> sums = right(type, op, whole);
    const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(part) * rank.rank();
    ASSERT_EQ(bytesOf(out), std::vector(begin, begin + static_cast<std::ptrdiff_t>(part)))
        << "reduce_scatter, " << what;
  }
};
// Under sanitizers all of them take minutes; two ranks and several go every way there is.
#ifdef UNISONO_SANITIZED
const auto kReducingRanks = ::testing::Values(2, 5);
#else
const auto kReducingRanks = ::testing::Range(1, 10);
#endif
INSTANTIATE_TEST_SUITE_P(Ranks, ReductionsTest,
                         ::testing::Combine(kReducingRanks, ::testing::Bool()),
                         [](const auto& param) {
                           return str(std::get<0>(param.param),
                                      std::get<1>(param.param) ? "Registered" : "");
                         });

// Sizes take turns: over the numbers of ranks each pair of type and operation meets each.
TEST_P(ReductionsTest, GiveTheBitsOfReducingInTheOrderOfRanks) {
  NativeWorld world(n_);
  world.run([&](NativeBackend& rank) {
    auto turn = static_cast<std::size_t>(n_);
    test::forEveryReduction([&](DType type, ReduceOp op) {
      check(rank, type, op, test::kOddCounts[++turn % test::kOddCounts.size()]);
    });
  });
}

}  // namespace
}  // namespace unisono
