#include "transport/shm/shared_mapping.hpp"

#include <cstring>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "store/expect.hpp"

namespace unisono::shm {
namespace {

using test::reasonOf;
using test::textOf;
using ::testing::HasSubstr;

const std::string kCookie(32, 'c');

/// What rank 0 answers: `bytes` bytes of memory, said to be `said`, with a header for `ranks`.
LocalMessage answerOf(std::size_t bytes, std::uint64_t said, std::uint32_t ranks) {
  const SharedMemory memory = SharedMemory::create(bytes, "a test");
  auto* header = reinterpret_cast<Header*>(memory.bytes().data());
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kVersion;
  header->ranks = ranks;
  header->bytes = bytes;
  std::memcpy(header->cookie, kCookie.data(), sizeof header->cookie);
  LocalMessage answer{"M", UniqueFd(::dup(memory.descriptor()))};
  ByteWriter(answer.bytes).number(said);
  return answer;
}

auto adoptForTwo(LocalMessage answer) {
  return SharedMapping::adopt(std::move(answer), 2, kCookie, "socket", "group 'g'");
}

TEST(SharedMappingTest, MapsTheMemoryOfItsGroup) {
  const std::size_t bytes = Layout{2}.bytes();
  const auto mapping = adoptForTwo(answerOf(bytes, bytes, 2));
  EXPECT_EQ(mapping->memory().bytes().size(), bytes);
}

TEST(SharedMappingTest, MemoryThatIsTooSmallForTheGroupIsRefused) {
  EXPECT_THAT(textOf<DistError>([] { adoptForTwo(answerOf(4096, 4096, 2)); }),
              HasSubstr("is 4096 bytes long, not"));
  EXPECT_EQ(reasonOf<DistError>([] { adoptForTwo(answerOf(4096, Layout{2}.bytes(), 2)); }),
            Reason::PROTOCOL);
}

TEST(SharedMappingTest, MemoryOfAnotherGroupIsRefused) {
  const std::size_t bytes = Layout{2}.bytes();
  EXPECT_THAT(textOf<DistError>([&] { adoptForTwo(answerOf(bytes, bytes, 3)); }),
              HasSubstr("that of another group"));
}

TEST(SharedMappingTest, AnAnswerThatIsCutShortIsRefused) {
  const std::size_t bytes = Layout{2}.bytes();
  for (const std::string text : {"", "M", "M1234567"}) {
    LocalMessage answer = answerOf(bytes, bytes, 2);
    answer.bytes = text;
    EXPECT_EQ(reasonOf<DistError>([&] { adoptForTwo(std::move(answer)); }), Reason::PROTOCOL);
  }
  LocalMessage answer = answerOf(bytes, bytes, 2);
  answer.fd.reset();
  EXPECT_EQ(reasonOf<DistError>([&] { adoptForTwo(std::move(answer)); }), Reason::PROTOCOL);
}

}  // namespace
}  // namespace unisono::shm
