#include "base/bytes.hpp"

#include <gmock/gmock.h>
#include <limits>
#include <vector>

#include "base/random.hpp"

namespace unisono {
namespace {

using ::testing::Optional;

constexpr std::uint64_t kHighest = std::numeric_limits<std::uint64_t>::max();

template <typename Reader, typename T>
concept Reads = requires(Reader reader) {
  reader.template number<T>();
};

template <typename T>
std::string written(T number) {
  std::string out;
  ByteWriter(out).number(number);
  return out;
}

TEST(ByteWriterTest, WritesNumbersLowestByteFirst) {
  EXPECT_EQ(written(std::uint32_t{0x04030201}), "\x01\x02\x03\x04");
  EXPECT_EQ(written(std::int16_t{-2}), "\xfe\xff");
  EXPECT_EQ(written(std::uint8_t{7}), "\x07");
}

TEST(ByteWriterTest, AppendsToWhatIsThere) {
  std::string out = "head";
  ByteWriter(out).raw("tail");

  EXPECT_EQ(out, "headtail");
}

TEST(ByteReaderTest, ReadsBackWhatWasWritten) {
  std::string out;
  ByteWriter writer(out);
  writer.number(std::numeric_limits<std::int64_t>::min());
  writer.number(kHighest);
  writer.number(std::int8_t{-1});
  writer.raw("raw");
  writer.blob(std::string_view("b\0b", 3));
  writer.blob("");
  writer.number(std::uint16_t{65535});

  ByteReader reader(out);
  EXPECT_THAT(reader.number<std::int64_t>(), Optional(std::numeric_limits<std::int64_t>::min()));
  EXPECT_THAT(reader.number<std::uint64_t>(), Optional(kHighest));
  EXPECT_THAT(reader.number<std::int8_t>(), Optional(-1));
  EXPECT_THAT(reader.raw(3), Optional(std::string_view("raw")));
  EXPECT_THAT(reader.blob(), Optional(std::string_view("b\0b", 3)));
  EXPECT_THAT(reader.blob(), Optional(std::string_view("")));
  EXPECT_THAT(reader.number<std::uint16_t>(), Optional(65535));
  EXPECT_EQ(reader.rest(), "");
}

TEST(ByteReaderTest, RefusesANumberOfWhichAByteIsMissing) {
  ByteReader reader("1234567");

  EXPECT_FALSE(reader.number<std::uint64_t>());
  EXPECT_EQ(reader.rest(), "1234567") << "a refused read takes nothing";
  EXPECT_TRUE(reader.number<std::uint32_t>());
  EXPECT_FALSE(reader.number<std::uint32_t>());
  EXPECT_EQ(reader.rest(), "567");
}

TEST(ByteReaderTest, TakesAllOrNothing) {
  ByteReader reader("abc");

  EXPECT_FALSE(reader.raw(4));
  EXPECT_THAT(reader.raw(3), Optional(std::string_view("abc")));
  EXPECT_THAT(reader.raw(0), Optional(std::string_view("")));
  EXPECT_FALSE(reader.raw(1));
  EXPECT_FALSE(reader.number<std::uint8_t>());
  EXPECT_FALSE(reader.blob());
}

TEST(ByteReaderTest, RefusesLengthsBeyondTheEnd) {
  for (const std::uint64_t length : {std::uint64_t{4}, std::uint64_t{1} << 32, kHighest / 2 + 1,
                                     kHighest - 8, kHighest - 3, kHighest}) {
    const std::string bytes = written(length) + "abc";
    ByteReader blob(bytes);
    EXPECT_FALSE(blob.blob()) << length;
    EXPECT_FALSE(ByteReader("abc").raw(length)) << length;
  }
}

TEST(ByteReaderTest, ReadsNothingFromNothing) {
  ByteReader reader{std::string_view()};

  EXPECT_FALSE(reader.number<std::uint8_t>());
  EXPECT_FALSE(reader.blob());
  EXPECT_THAT(reader.raw(0), Optional(std::string_view()));
}

TEST(ByteReaderTest, NeverReadsPastTheEndOfDamagedBytes) {
  SeededRng rng(1);
  for (int round = 0; round < 2000; ++round) {
    // On the heap and exactly as long as said, so that a sanitizer sees a step too far.
    std::vector<char> bytes(rng.next() % 40);
    for (char& c : bytes) {
      c = static_cast<char>(rng.next() & (rng.next() % 4 == 0 ? 0xff : 0x03));
    }
    ByteReader reader(std::string_view(bytes.data(), bytes.size()));
    std::size_t taken = 0;
    for (std::optional<std::string_view> blob = reader.blob(); blob; blob = reader.blob()) {
      taken += sizeof(std::uint64_t) + std::string(*blob).size();
    }
    ASSERT_LE(taken, bytes.size());
    ASSERT_LE(reader.rest().size(), bytes.size() - taken);
  }
}

TEST(ByteReaderTest, DoesNotReadTruthValues) {
  EXPECT_FALSE((Reads<ByteReader, bool>));
  EXPECT_TRUE((Reads<ByteReader, std::uint8_t>));
}

TEST(AsBytesTest, ShowsTheSameBytesEitherWay) {
  const std::string text("a\0\xff", 3);

  EXPECT_EQ(asText(asBytes(text)), text);
  EXPECT_EQ(asBytes(text)[2], 0xff);
  EXPECT_TRUE(asText(ByteView()).empty());
}

}  // namespace
}  // namespace unisono
