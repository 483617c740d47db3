// Memory that other ranks map, and what is made of places that cannot be.
#include "transport/shm/registered_memory.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/expect.hpp"
#include "support/thread_world.hpp"

namespace unisono::shm {
namespace {

using test::textOf;
using test::ThreadWorld;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class RegisteredMemoryTest : public ::testing::Test {
 protected:
  static std::span<std::byte> bytesOf(const std::shared_ptr<std::byte>& block, std::size_t bytes) {
    return {block.get(), bytes};
  }
  Deadline soon() { return Deadline::after(20s); }

  ThreadWorld world{2};
  RegisteredMemory owner{world.segment(0)};
  RegisteredMemory peer{world.segment(1)};
};

TEST_F(RegisteredMemoryTest, IsTheSameForItsRankAndOthers) {
  const auto block = owner.allocate(10'000);
  const std::span<std::byte> mine = bytesOf(block, 10'000);
  const Place place = owner.find(mine.subspan(100, 50));
  ASSERT_NE(place.block, 0U);
  EXPECT_EQ(place.offset, 100U);

  const std::span<std::byte> theirs = peer.reach(0, place, 50, soon());
  mine[100] = std::byte{7};
  EXPECT_EQ(theirs[0], std::byte{7});
  theirs[49] = std::byte{8};
  EXPECT_EQ(mine[149], std::byte{8});
}

TEST_F(RegisteredMemoryTest, FindsOnlyWhatLiesWhollyInABlock) {
  const auto block = owner.allocate(1000);
  std::vector<std::byte> ordinary(1000);
  EXPECT_EQ(owner.find(ordinary).block, 0U);
  EXPECT_EQ(owner.find({block.get() + 999, 2}).block, 0U);
  EXPECT_EQ(owner.find({block.get() - 1, 2}).block, 0U);
  EXPECT_NE(owner.find({block.get(), 1000}).block, 0U);
  EXPECT_EQ(peer.find({block.get(), 1000}).block, 0U) << "it is another rank's";
}

TEST_F(RegisteredMemoryTest, APlaceThatCannotBeIsRefused) {
  const auto block = owner.allocate(4096);
  const Place place = owner.find(bytesOf(block, 4096));
  for (const Place wrong :
       {Place{place.block, 4097}, Place{place.block, ~std::uint64_t{0}}, Place{place.block, 1}}) {
    EXPECT_THAT(textOf<DistError>([&] { peer.reach(0, wrong, 4096, soon()); }),
                AllOf(HasSubstr("[PROTOCOL]"), HasSubstr("rank 0 announces a tensor")));
  }
  EXPECT_THAT(textOf<DistError>([&] {
                peer.reach(0, {place.block + 1, 0}, 1, soon());
              }),
              AllOf(HasSubstr("[PROTOCOL]"), HasSubstr("does not give out its registered memory")));
}

TEST_F(RegisteredMemoryTest, WhatWasLetGoIsNotGivenOutAndItsPagesAreFree) {
  auto block = owner.allocate(4096);
  const Place place = owner.find(bytesOf(block, 4096));
  block.get()[5] = std::byte{9};
  const std::span<std::byte> theirs = peer.reach(0, place, 4096, soon());
  ASSERT_EQ(theirs[5], std::byte{9});
  block.reset();
  EXPECT_EQ(theirs[5], std::byte{0}) << "the page is gone, though it is still mapped";

  const auto next = owner.allocate(4096);
  peer.reach(0, owner.find(bytesOf(next, 4096)), 4096, soon());
  EXPECT_THROW(peer.reach(0, place, 4096, soon()), DistError) << "it was unmapped";
}

TEST_F(RegisteredMemoryTest, AForkedChildMayReadIt) {
  auto block = owner.allocate(4096);
  block.get()[0] = std::byte{5};
  const pid_t child = ::fork();
  if (child == 0) {
    const bool right = block.get()[0] == std::byte{5};
    block.reset();  // takes nothing from the parent
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block.get()[0], std::byte{5});
}

}  // namespace
}  // namespace unisono::shm
