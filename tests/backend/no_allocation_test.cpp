// Synchronous calls on an idle group take no memory.
#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <limits>
#include <string>

#include "backend/native_world.hpp"
#include "support/memory.hpp"

namespace unisono {
namespace {

using test::allocationsHere;
using test::NativeWorld;

struct Given {
  NativeBackend& rank;
  Tensor one;  // a part of the others, which have one for each rank
  Tensor all;
  Tensor more;
};
struct Named {
  std::string name;
  std::function<void(const Given&)> call;
};

class NoAllocationTest : public ::testing::TestWithParam<Named> {};

TEST_P(NoAllocationTest, ASynchronousCallTakesNoMemory) {
  constexpr std::size_t kRanks = 2;
  NativeWorld world(kRanks);
  // By lines, by small slots, by the ring.
  for (const std::size_t count : {4U, 400U, 5'000U}) {
    world.run([&](NativeBackend& rank) {
      std::vector<float> one(count);
      std::vector<float> all(count * kRanks);
      std::vector<float> more(count * kRanks);
      const Given given{rank, Tensor(one), Tensor(all), Tensor(more)};
      // The least of many: the first calls make what stays, and who has to sleep may allocate.
      std::size_t least = std::numeric_limits<std::size_t>::max();
      for (int i = 0; i < 200; ++i) {
        const std::size_t before = allocationsHere();
        GetParam().call(given);
        least = std::min(least, allocationsHere() - before);
      }
      EXPECT_EQ(least, 0U) << "for parts of " << count << " numbers";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, NoAllocationTest,
    ::testing::Values(
        Named{"AllReduce",
              [](const Given& g) { g.rank.allreduce({g.all}, {.asyncOp = false})->wait(); }},
        Named{"Broadcast",
              [](const Given& g) { g.rank.broadcast({g.all}, {.asyncOp = false})->wait(); }},
        Named{"AllGather",
              [](const Given& g) {
                g.rank.allGatherSingle(g.all, g.one, {.asyncOp = false})->wait();
              }},
        Named{"ReduceScatter",
              [](const Given& g) {
                g.rank.reduceScatterSingle(g.one, g.all, {.asyncOp = false})->wait();
              }},
        Named{"AllToAll",
              [](const Given& g) {
                g.rank.allToAllSingle(g.more, g.all, {}, {}, {.asyncOp = false})->wait();
              }},
        Named{"Barrier", [](const Given& g) { g.rank.barrier({.asyncOp = false})->wait(); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace unisono
