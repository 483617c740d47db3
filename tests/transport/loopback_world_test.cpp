// The world that the tests of algorithms between hosts stand on.
#include "support/loopback_world.hpp"

#include <gmock/gmock.h>
#include <stdexcept>

#include "store/expect.hpp"

namespace unisono {
namespace {

using test::LoopbackCost;
using test::LoopbackWorld;
using test::operate;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::size_t kNoRoom = 0;

/// Each sends before it receives: fine only where somebody keeps the block meanwhile.
void sendThenReceive(Communicator& comm) {
  std::byte mine{static_cast<unsigned char>(comm.rank())};
  std::byte theirs{99};
  comm.send({.rank = 1 - comm.rank(), .block = {&mine, 1}});
  comm.receive({.rank = 1 - comm.rank(), .block = {&theirs, 1}});
  EXPECT_EQ(theirs, std::byte{static_cast<unsigned char>(1 - comm.rank())});
}

TEST(LoopbackWorldTest, KeepsWhatNobodyHasAskedForWhereThereIsRoom) {
  LoopbackWorld world(2, {.room = 1});
  world.run([](Communicator& comm) { operate(comm, [&] { sendThenReceive(comm); }); });
}

TEST(LoopbackWorldTest, WithoutRoomASenderWaitsForTheReceiverUntilItsTimeIsOver) {
  LoopbackWorld world(2, {.room = kNoRoom, .timeout = 50ms});
  for (const std::exception_ptr& thrown :
       world.outcomes([](Communicator& comm) { operate(comm, [&] { sendThenReceive(comm); }); })) {
    EXPECT_THAT(textOfThrown(thrown), HasSubstr("[TIMEOUT]"));
  }
}

TEST(LoopbackWorldTest, WithoutRoomAnExchangeDoesNotWaitForItself) {
  LoopbackWorld world(2, {.room = kNoRoom});
  world.run([](Communicator& comm) {
    operate(comm, [&] {
      const int peer = 1 - comm.rank();
      std::vector<float> mine(1000, static_cast<float>(comm.rank() + 1));
      std::vector<float> sum(1000, 10);
      const Reduction add = Reduction::of(DType::FLOAT32, ReduceOp::SUM, 2);
      comm.exchange({.rank = peer, .block = std::as_bytes(std::span(mine))},
                    {.rank = peer,
                     .block = std::as_writable_bytes(std::span(sum)),
                     .into = RecvFrom::Into::AFTER,
                     .reduction = &add});
      EXPECT_THAT(sum, ::testing::Each(static_cast<float>(peer + 11)));
    });
  });
}

TEST(LoopbackWorldTest, CountsWhatIsSentAndHowOftenOneWaitsForAnother) {
  LoopbackWorld world(3);
  world.run([](Communicator& comm) {
    operate(comm, [&] {
      std::vector<std::byte> block(7);
      if (comm.rank() > 0) {
        comm.receive({.rank = comm.rank() - 1, .block = block});
      }
      if (comm.rank() < 2) {
        comm.send({.rank = comm.rank() + 1, .block = block});
      }
    });
  });
  EXPECT_EQ(world.cost(0), (LoopbackCost{.bytes = 7, .messages = 1, .flights = 0}));
  EXPECT_EQ(world.cost(1), (LoopbackCost{.bytes = 7, .messages = 1, .flights = 1}));
  EXPECT_EQ(world.cost(2), (LoopbackCost{.bytes = 0, .messages = 0, .flights = 2}));
  EXPECT_EQ(world.total(), (LoopbackCost{.bytes = 14, .messages = 2, .flights = 2}));
}

TEST(LoopbackWorldTest, EndsTheGroupWhenRanksMeanDifferentThings) {
  for (const std::size_t bytes : {1U, 2U}) {
    LoopbackWorld world(2);
    const auto thrown = world.outcomes([&](Communicator& comm) {
      const bool first = comm.rank() == 0;
      const std::uint32_t signature = first || bytes == 2 ? 1 : 2;
      operate(
          comm,
          [&] {
            std::vector<std::byte> block(first ? 1 : bytes);
            std::vector<std::byte> other(block.size());
            comm.exchange({.rank = 1 - comm.rank(), .block = block},
                          {.rank = 1 - comm.rank(), .block = other});
          },
          signature);
      operate(comm, [] {});
    });
    EXPECT_THAT(textOfThrown(thrown[0]), HasSubstr("[MISMATCH]"));
    EXPECT_THAT(textOfThrown(thrown[1]), HasSubstr("[MISMATCH]"));
  }
}

TEST(LoopbackWorldTest, EndsTheGroupWithAnOperationThatIsNotDone) {
  LoopbackWorld world(2);
  const auto thrown = world.outcomes([](Communicator& comm) {
    comm.begin({.name = "test", .timeout = 20s});
    std::byte block{};
    if (comm.rank() == 0) {
      comm.end(false);
    } else {
      comm.receive({.rank = 0, .block = {&block, 1}});
    }
  });
  EXPECT_EQ(thrown[0], nullptr);
  EXPECT_THAT(textOfThrown(thrown[1]), AllOf(HasSubstr("[ABORTED]"), HasSubstr("rank 0")));
}

TEST(LoopbackWorldTest, SeesBlocksThatOverlapAndMessagesThatAreLeftOver) {
  LoopbackWorld world(2);
  EXPECT_THROW(world.run([](Communicator& comm) {
    operate(comm, [&] {
      std::vector<std::byte> block(2);
      comm.exchange({.rank = 1 - comm.rank(), .block = block},
                    {.rank = 1 - comm.rank(), .block = std::span(block).first(1)});
    });
  }),
               std::logic_error);
  LoopbackWorld other(2);
  EXPECT_THROW(other.run([](Communicator& comm) {
    operate(comm, [&] { comm.send({.rank = 1 - comm.rank(), .block = {}}); });
  }),
               std::logic_error);
}

}  // namespace
}  // namespace unisono
