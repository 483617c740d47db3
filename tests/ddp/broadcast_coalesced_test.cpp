#include "unisono/ddp/broadcast_coalesced.hpp"

#include <gmock/gmock.h>
#include <numeric>

#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::inWorld;
using test::reasonOf;
using test::textOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// Tensors of three types and odd sizes, different on each rank and in each place.
struct Mixture {
  explicit Mixture(int rank) {
    for (std::size_t i = 0; i < 10; ++i) {
      floats.emplace_back(7 * i % 23, static_cast<float>(100 * rank) + static_cast<float>(i));
      doubles.emplace_back(i + 1, 200.0 * rank + static_cast<double>(i));
      bytes.emplace_back(3 * i + 1, static_cast<std::uint8_t>(10 * rank + static_cast<int>(i)));
      tensors.emplace_back(floats.back());
      tensors.emplace_back(doubles.back());
      tensors.emplace_back(bytes.back());
    }
  }
  bool operator==(const Mixture& other) const {
    return floats == other.floats && doubles == other.doubles && bytes == other.bytes;
  }

  std::vector<std::vector<float>> floats;
  std::vector<std::vector<double>> doubles;
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<Tensor> tensors;
};

class BroadcastCoalescedTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Roots, BroadcastCoalescedTest, ::testing::Values(0, 1, 2));

TEST_P(BroadcastCoalescedTest, GivesEveryRankTheTensorsOfTheRoot) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{256}, kDefaultBroadcastBytes}) {
    inWorld(3, [&](Group world) {
      Mixture mine(world.rank());
      broadcastCoalesced(world, mine.tensors, bytes, GetParam());
      EXPECT_TRUE(mine == Mixture(GetParam())) << "rank " << world.rank() << ", " << bytes;
    });
  }
}

TEST(BroadcastCoalescedOneTest, LeavesAloneWhatIsBetweenTheElementsOfAView) {
  inWorld(2, [](Group world) {
    std::vector<float> memory(12, -1);
    std::vector<float> others(3, static_cast<float>(world.rank()));
    const Tensor column(memory.data(), DType::FLOAT32, {6}, {2});
    for (std::size_t i = 0; i < 12; i += 2) {
      memory[i] = static_cast<float>(world.rank() * 100) + static_cast<float>(i);
    }

    broadcastCoalesced(world, std::vector<Tensor>{column, Tensor(others)}, 1 << 20, 1);

    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(memory[i], i % 2 == 1 ? -1.0F : 100.0F + static_cast<float>(i));
    }
    EXPECT_THAT(others, Each(1.0F));
  });
}

TEST(BroadcastCoalescedOneTest, NothingIsALegalNumberOfTensors) {
  inWorld(2, [](Group world) { broadcastCoalesced(world, {}); });
}

TEST(BroadcastCoalescedOneTest, RanksWhoseTensorsDifferAreTold) {
  inWorld(2, [](Group world) {
    std::vector<float> some(world.rank() == 0 ? 10 : 11);
    EXPECT_EQ(reasonOf<DistBackendError>([&] {
                broadcastCoalesced(world, std::vector<Tensor>{Tensor(some)});
                world.barrier();
              }),
              Reason::MISMATCH);
  });
}

TEST(BroadcastCoalescedOneTest, RefusesWhatMakesNoSense) {
  inWorld(2, [](Group world) {
    std::vector<float> one(1);
    EXPECT_THAT(textOf<UsageError>([&] {
                  broadcastCoalesced(world, std::vector<Tensor>{Tensor(one), Tensor()});
                }),
                HasSubstr("tensor 1 of a broadcast is none"));
    EXPECT_THAT(textOf<UsageError>(
                    [&] { broadcastCoalesced(world, std::vector<Tensor>{Tensor(one)}, 1, 2); }),
                HasSubstr("rank 2 cannot be the root"));
    world.barrier();  // nobody has lost step
  });
}

}  // namespace
}  // namespace unisono
