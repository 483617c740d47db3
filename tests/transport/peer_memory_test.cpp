// Reading the memory of another rank's process, and when that is not believed.
#include "transport/shm/peer_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <vector>

#include "support/support.hpp"
#include "support/thread_world.hpp"

namespace unisono::shm {
namespace {

using test::ScopedEnv;
using test::ThreadWorld;

class PeerMemoryTest : public ::testing::Test {
 protected:
  static std::uint64_t addressOf(const void* data) { return reinterpret_cast<std::uint64_t>(data); }
  bool readBack(PeerMemory& reader, std::uint64_t address) {
    return reader.read(1, address, std::as_writable_bytes(std::span(found)));
  }
  ThreadWorld world{2};
  const std::vector<int> there{1, 2, 3};
  std::vector<int> found = std::vector<int>(3);
};

TEST_F(PeerMemoryTest, FetchesWhatIsThere) {
  PeerMemory reader(world.segment(0), "these are");
  ASSERT_TRUE(reader.isReadable(1));
  ASSERT_TRUE(readBack(reader, addressOf(there.data())));
  EXPECT_EQ(found, there);
}

TEST_F(PeerMemoryTest, AnotherProcessIsNotTakenForThePeer) {
  world.segment(1).block(1).proof.value[1] ^= 1U;
  PeerMemory reader(world.segment(0), "these are");
  EXPECT_FALSE(reader.isReadable(1));
  world.segment(1).block(1).proof.value[1] ^= 1U;
  EXPECT_FALSE(reader.isReadable(1)) << "once is enough";
}

TEST_F(PeerMemoryTest, MemoryThatIsNotThereIsAFailureAndNotACrash) {
  PeerMemory reader(world.segment(0), "these are");
  ASSERT_TRUE(reader.isReadable(1));
  void* const gone = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  EXPECT_FALSE(readBack(reader, addressOf(gone)));
  ::munmap(gone, 4096);
  EXPECT_TRUE(reader.isReadable(1)) << "that was no refusal";
}

TEST_F(PeerMemoryTest, WhatWasWithdrawnCountsForNothing) {
  PeerMemory reader(world.segment(0), "these are");
  ASSERT_TRUE(reader.isReadable(1));
  world.segment(1).withdraw();
  EXPECT_FALSE(readBack(reader, addressOf(there.data())));
}

TEST_F(PeerMemoryTest, IsLeftAloneWhenTurnedOff) {
  const ScopedEnv off("UNISONO_CMA", "off");
  PeerMemory reader(world.segment(0), "these are");
  EXPECT_FALSE(reader.isReadable(1));
}

}  // namespace
}  // namespace unisono::shm
