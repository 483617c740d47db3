// The same bits every time: whatever algorithm, cut, memory and instruction set does a reduction.
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "backend/native_world.hpp"
#include "base/str.hpp"
#include "collective/selection.hpp"
#include "reduction/instruction_set.hpp"
#include "reduction/reduction.hpp"
#include "support/effort.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::NativeWorld;

enum class Memory { ORDINARY, REGISTERED, MIXED };

struct Case {
  std::string instructions;
  std::string algorithm;  // empty: as the selector likes
  int ranks;
  Memory memory;
};

/// Every instruction set with every algorithm and number of ranks, which take turns under
/// sanitizers; memory of all kinds with each.
std::vector<Case> cases() {
  std::vector<std::string> algorithms{""};
  for (const AllreduceAlgorithm& each : allreduceAlgorithms()) {
    algorithms.push_back(str("allreduce=", each.name));
  }
  std::vector<Case> all;
  for (const std::string& instructions : instructionSets()) {
    for (const std::string& algorithm : algorithms) {
      std::vector<int> numbers{2, 3, 5};
      if (test::kSanitized) {
        numbers = {numbers[all.size() % numbers.size()]};
      }
      for (const int ranks : numbers) {
        all.push_back({instructions, algorithm, ranks,
                       static_cast<Memory>((all.size() + all.size() / 3) % 3)});
      }
    }
  }
  return all;
}

// A line, what fits small slots, the first that lies in place, several rounds and an odd end.
constexpr std::size_t kCounts[] = {3, 1000, 2051, 4200, 40'001};
constexpr DType kTypes[] = {DType::FLOAT32, DType::FLOAT16, DType::BFLOAT16, DType::FLOAT64};

/// Numbers of very different size, so that every other order of adding gives other bits.
std::vector<std::byte> numbers(DType type, std::size_t count, int rank) {
  std::mt19937_64 random(static_cast<unsigned>(rank * 7919) + static_cast<unsigned>(count));
  std::vector<std::byte> bytes(count * elementSize(type));
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random();
    std::memcpy(&bytes[i], &bits, std::min(sizeof bits, bytes.size() - i));
  }
  // But none of infinities and NaN: the highest bit of the exponent is not set.
  for (std::size_t i = elementSize(type) - 1; i < bytes.size(); i += elementSize(type)) {
    bytes[i] &= std::byte{0xBF};
  }
  return bytes;
}

/// By one thread, in the order of the ranks, with the widest instructions.
std::vector<std::byte> expected(DType type, ReduceOp op, std::size_t count, int ranks) {
  std::vector<std::vector<std::byte>> all;
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(numbers(type, count, rank));
    sources.push_back(all.back().data());
  }
  std::vector<std::byte> result(count * elementSize(type));
  useBestInstructionSet();
  Reduction::of(type, op, ranks).reduce(result.data(), sources, count);
  return result;
}

class DeterminismTest : public ::testing::TestWithParam<Case> {
 protected:
  ~DeterminismTest() override { useBestInstructionSet(); }

  /// This rank's numbers, in the memory that is asked for.
  Tensor tensorOf(NativeBackend& rank, DType type, std::size_t count,
                  std::vector<std::byte>& ordinary) const {
    ordinary = numbers(type, count, rank.rank());
    const bool registered = GetParam().memory == Memory::REGISTERED ||
                            (GetParam().memory == Memory::MIXED && rank.rank() % 2 == 1);
    if (!registered) {
      return Tensor(ordinary.data(), type, Dims{static_cast<std::int64_t>(count)});
    }
    Tensor tensor = rank.allocateTensor(static_cast<std::int64_t>(count), type);
    std::copy(ordinary.begin(), ordinary.end(), tensor.dataAs<std::byte>());
    return tensor;
  }
  static std::vector<std::byte> bytesOf(const Tensor& tensor) {
    return {tensor.dataAs<std::byte>(), tensor.dataAs<std::byte>() + tensor.bytes()};
  }
};

TEST_P(DeterminismTest, EveryWayGivesTheSameBits) {
  const test::ScopedEnv algorithm("UNISONO_ALGO", GetParam().algorithm);
  const int n = GetParam().ranks;
  NativeWorld world{n};
  for (const DType type : kTypes) {
    for (const std::size_t count : kCounts) {
      const ReduceOp op = count % 2 == 0 ? ReduceOp::AVG : ReduceOp::SUM;
      const std::vector<std::byte> right = expected(type, op, count, n);
      const std::size_t part = count / static_cast<std::size_t>(n) * elementSize(type);
      useInstructionSet(GetParam().instructions);
      world.run([&](NativeBackend& rank) {
        std::vector<std::byte> memory;
        const Tensor all = tensorOf(rank, type, count, memory);
        rank.allreduce({all}, {.reduceOp = op, .asyncOp = false})->wait();
        EXPECT_EQ(bytesOf(all), right) << "all_reduce, " << name(type) << " " << count;

        const Tensor mine = tensorOf(rank, type, count, memory);
        rank.reduce({mine}, {.reduceOp = op, .rootRank = n - 1, .asyncOp = false})->wait();
        EXPECT_TRUE(rank.rank() != n - 1 || bytesOf(mine) == right)
            << "reduce, " << name(type) << " " << count;

        const auto whole =
            static_cast<std::int64_t>(part * static_cast<std::size_t>(n) / elementSize(type));
        const Tensor cut = slice(tensorOf(rank, type, count, memory), 0, whole);
        std::vector<std::byte> out(part);
        const Tensor share(out.data(), type, Dims{whole / n});
        rank.reduceScatterSingle(share, cut, {.reduceOp = op, .asyncOp = false})->wait();
        EXPECT_TRUE(std::equal(out.begin(), out.end(),
                               right.begin() + static_cast<std::ptrdiff_t>(part) * rank.rank()))
            << "reduce_scatter, " << name(type) << " " << count;
      });
    }
  }
}

std::string nameOf(const ::testing::TestParamInfo<Case>& test) {
  constexpr const char* kMemory[] = {"Ordinary", "Registered", "Mixed"};
  const Case& row = test.param;
  const std::string algorithm = row.algorithm.substr(row.algorithm.find('=') + 1);
  return str(row.instructions, algorithm.empty() ? "Chosen" : algorithm, row.ranks, "Ranks",
             kMemory[static_cast<std::size_t>(row.memory)]);
}

INSTANTIATE_TEST_SUITE_P(Ways, DeterminismTest, ::testing::ValuesIn(cases()), nameOf);

}  // namespace
}  // namespace unisono
