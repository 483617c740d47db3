#include "store/file/record_log.hpp"

#include <gmock/gmock.h>

#include "base/random.hpp"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Stop = RecordLog::Progress::Stop;

std::string one(std::string_view key, std::string_view value) {
  const Record record{std::string(key), std::string(value)};
  return encodeChange({&record, 1});
}

std::string many(const std::vector<Record>& records) {
  return encodeChange(records);
}

/// Replays `bytes` as a whole file; the test fails when that is refused.
RecordLog::Progress replayAll(RecordLog& log, std::string_view bytes) {
  const Result<RecordLog::Progress> progress = log.replay(bytes, bytes.size());
  EXPECT_TRUE(progress.isOk()) << progress.failure().text();
  return progress.isOk() ? progress.value() : RecordLog::Progress{};
}

std::string refusal(std::string_view bytes) {
  RecordLog log;
  const Result<RecordLog::Progress> progress = log.replay(bytes, bytes.size());
  EXPECT_FALSE(progress.isOk());
  return progress.isOk() ? "" : progress.failure().text();
}

const std::string kFile = one("-unisono1", "0123456789abcdef") + one("refcount/", "1") +
                          one("/foo", "bar") + many({{"/a", "1"}, {"/b", "22"}, {"/c", "333"}}) +
                          one("-/a", "");

TEST(EncodeChangeTest, WritesThePyTorchFormat) {
  EXPECT_EQ(one("/foo", "bar"), std::string("\x04\0\0\0/foo\x03\0\0\0bar", 15));
  EXPECT_EQ(one("-/foo", ""), std::string("\x05\0\0\0-/foo\0\0\0\0", 13));
}

TEST(RecordLogTest, KeepsTheLastValueAndForgetsWhatWasDeleted) {
  RecordLog log;

  const auto progress = replayAll(log, one("/a", "1") + one("/b", "2") + one("/a", "3") +
                                           one("-/b", "") + one("-/unknown", ""));

  EXPECT_EQ(progress.stop, Stop::END);
  EXPECT_THAT(log.values(), ElementsAre(Pair("/a", "3")));
}

TEST(RecordLogTest, KeepsOurOwnRecordsApartFromTheValues) {
  RecordLog log;

  replayAll(log, kFile);

  EXPECT_THAT(log.values(), ElementsAre(Pair("/b", "22"), Pair("/c", "333"), Pair("/foo", "bar"),
                                        Pair("refcount/", "1")));
  ASSERT_EQ(log.marks().size(), 1U);
  EXPECT_EQ(log.marks()[0].value, "0123456789abcdef");
}

TEST(RecordLogTest, TakesKeysThatBeginWithADashAsUsersWriteThem) {
  RecordLog log;

  replayAll(log, one("/-key", "x"));

  ASSERT_NE(log.find("/-key"), nullptr);
  EXPECT_EQ(*log.find("/-key"), "x");
}

TEST(RecordLogTest, GivesTheSameStateHoweverTheBytesAreCutIntoReads) {
  RecordLog whole;
  replayAll(whole, kFile);

  for (std::size_t step = 1; step <= kFile.size(); ++step) {
    RecordLog log;
    std::size_t window = step;
    while (log.offset() < kFile.size()) {
      const std::uint64_t left = kFile.size() - log.offset();
      const std::string_view seen = std::string_view(kFile).substr(log.offset(), window);
      const auto progress = log.replay(seen, left);
      ASSERT_TRUE(progress.isOk());
      ASSERT_NE(progress.value().stop, Stop::TORN);
      window = std::max<std::size_t>(step, progress.value().wanted);
    }
    EXPECT_EQ(log.values(), whole.values());
  }
}

TEST(RecordLogTest, TakesAFileCutAtAnyByteForOneWhoseLastChangeWasNotMade) {
  // Where changes end; between them nothing of the next may be visible.
  const std::vector<std::string> changes = {
      one("-unisono1", "0123456789abcdef"), one("refcount/", "1"), one("/foo", "bar"),
      many({{"/a", "1"}, {"/b", "22"}, {"/c", "333"}}), one("-/a", "")};
  std::string before;
  RecordLog::Values state;
  for (const std::string& change : changes) {
    for (std::size_t cut = before.empty() ? 4 : 1; cut < change.size(); ++cut) {
      RecordLog log;
      const auto progress = replayAll(log, before + change.substr(0, cut));
      EXPECT_EQ(progress.stop, Stop::TORN);
      EXPECT_EQ(log.offset(), before.size()) << "cut after " << cut << " bytes";
      EXPECT_EQ(log.values(), state);
    }
    before += change;
    RecordLog log;
    replayAll(log, before);
    state = log.values();
  }
}

TEST(RecordLogTest, RefusesForeignFilesAtTheirFirstByte) {
  for (const std::string& foreign :
       {std::string("Dear diary, today I wrote a key-value store.\n"), std::string("x"),
        std::string("\t"), std::string(4096, '\0'),
        std::string("\x7f"
                    "ELF\x02\x01\x01\0\0\0\0",
                    11),
        std::string("{\"a\": 1}"), std::string("\x89PNG\r\n\x1a\n", 8),
        std::string("\x09\0\0\0someothe", 12), std::string("\x04\0\0\0/foo\x03\0\0\0ba", 14),
        std::string("\x05\0\0\0hello\x00\0\0\0", 13)}) {
    EXPECT_THAT(refusal(foreign), HasSubstr("at offset 0 ")) << foreign;
  }
}

TEST(RecordLogTest, RefusesGarbageInTheMiddleAndNamesTheOffset) {
  const std::string good = one("refcount/", "1") + one("/foo", "bar");
  const std::string where = str("at offset ", good.size(), " ");

  EXPECT_THAT(refusal(good + std::string("\0\0\0\0\0\0\0\0", 8) + good), HasSubstr(where));
  EXPECT_THAT(refusal(good + "garbage, and more of it" + good), HasSubstr(where));
  EXPECT_THAT(refusal(good + std::string("\x04\0\0\0/foo\xff\xff\xff\x7f", 12) + good),
              HasSubstr(where));
  EXPECT_THAT(refusal(good + std::string("\x01\0\0\0-\0\0\0\0", 9)), HasSubstr(where));
  EXPECT_THAT(refusal(good + one("-unisono1/batch", "many") + good), HasSubstr(where));
}

TEST(RecordLogTest, TakesLargeValuesOfPyTorchWhenTheyAreThere) {
  const std::string large(kMostValueBytes + 1, 'v');
  RecordLog log;

  replayAll(log, one("/large", large));

  EXPECT_EQ(*log.find("/large"), large);
}

TEST(RecordLogTest, NeverLoopsNorReadsBeyondTheBytesWhateverTheyAre) {
  SeededRng rng(20240607);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = round % 2 == 0 ? kFile : one("refcount/", "1");
    if (round % 3 == 0) {
      bytes[rng.next() % bytes.size()] = static_cast<char>(rng.next());
    }
    for (std::uint64_t extra = rng.next() % 40; extra > 0; --extra) {
      bytes += static_cast<char>(rng.next() % 4 == 0 ? rng.next() : 0);
    }
    RecordLog log;
    const auto progress = log.replay(bytes, bytes.size());
    if (progress.isOk()) {
      EXPECT_NE(progress.value().stop, Stop::MORE);
      EXPECT_LE(log.offset(), bytes.size());
    } else {
      EXPECT_EQ(progress.failure().reason(), Reason::PROTOCOL);
    }
  }
}

}  // namespace
}  // namespace unisono
