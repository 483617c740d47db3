#include "store/tcp/codec.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <numeric>
#include <random>

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "support/cpu_time.hpp"
#include "support/memory.hpp"

namespace unisono::tcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Step = RequestParser::Step;

/// A request that outlives the parser's buffers.
struct Parsed {
  Query query{};
  bool answered = false;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::int64_t number = 0;

  explicit Parsed(const Request& request)
      : query(request.query()),
        answered(request.answered),
        keys(request.keys.begin(), request.keys.end()),
        values(request.values.begin(), request.values.end()),
        number(request.number) {}
  Parsed(Query q, bool a, std::vector<std::string> k, std::vector<std::string> v, std::int64_t n)
      : query(q), answered(a), keys(std::move(k)), values(std::move(v)), number(n) {}
  friend bool operator==(const Parsed&, const Parsed&) = default;
  friend void PrintTo(const Parsed& parsed, std::ostream* out) {
    *out << static_cast<int>(parsed.query) << (parsed.answered ? "!" : "") << " with "
         << parsed.keys.size() << " keys";
  }
};

/// A request as bytes, and what it is to be read as.
struct Example {
  std::string bytes;
  Parsed parsed;
};

/// One of every shape, with fields that cannot be mistaken for one another.
Example exampleOf(const Shape& shape, bool answered) {
  RequestWriter writer;
  writer.begin(shape.query, answered);
  Example example{"", Parsed(shape.query, answered, {}, {}, 0)};
  const auto key = [&](std::string text) {
    writer.blob(text);
    example.parsed.keys.push_back(std::move(text));
  };
  const auto value = [&](std::string text) {
    writer.blob(text);
    example.parsed.values.push_back(std::move(text));
  };
  for (const Field field : shape.fields) {
    switch (field) {
      case Field::U32:
        example.parsed.number = 0xF1E2D3C4;
        writer.u32(0xF1E2D3C4);
        break;
      case Field::I64:
        example.parsed.number = -0x0102030405060708;
        writer.i64(-0x0102030405060708);
        break;
      case Field::KEY:
        key("/key");
        break;
      case Field::VALUE:
        value(str("value", example.parsed.values.size()));
        break;
      case Field::KEYS:
      case Field::PAIRS:
        writer.i64(3);
        for (const char* name : {"/a", "", "/ccc"}) {
          key(name);
          if (field == Field::PAIRS) {
            value(str("of ", name));
          }
        }
        break;
      case Field::END:
        break;
    }
  }
  example.bytes = writer.bytes();
  return example;
}

std::vector<Example> allExamples() {
  std::vector<Example> examples;
  for (const Shape& shape : kShapes) {
    if (shape.stock) {
      examples.push_back(exampleOf(shape, false));
    }
    if (shape.answered) {
      examples.push_back(exampleOf(shape, true));
    }
  }
  return examples;
}

/// What `parser` makes of `bytes` given at once; fails the test on BAD.
std::vector<Parsed> feed(RequestParser& parser, std::string_view bytes) {
  std::vector<Parsed> requests;
  Request request;
  Step step = Step::REQUEST;
  while ((step = parser.next(&bytes, &request)) == Step::REQUEST) {
    requests.emplace_back(request);
  }
  EXPECT_EQ(step, Step::NEED_MORE) << parser.failure().text();
  EXPECT_TRUE(bytes.empty());
  return requests;
}

/// The failure that `bytes` lead to, or an ok status.
Status failureOf(std::string_view bytes, const StoreLimits& limits = {}) {
  RequestParser parser(limits);
  Request request;
  Step step = Step::REQUEST;
  while ((step = parser.next(&bytes, &request)) == Step::REQUEST) {}
  return step == Step::BAD ? parser.failure() : Status::ok();
}

TEST(RequestParserTest, ReadsEveryShapeAsItWasWritten) {
  const StoreLimits limits;
  RequestParser parser(limits);
  for (const Example& example : allExamples()) {
    EXPECT_THAT(feed(parser, example.bytes), ElementsAre(example.parsed));
    EXPECT_TRUE(parser.idle());
  }
}

TEST(RequestParserTest, ReadsEveryShapeCutAnywhere) {
  const StoreLimits limits;
  for (const Example& example : allExamples()) {
    for (std::size_t cut = 1; cut < example.bytes.size(); ++cut) {
      RequestParser parser(limits);
      EXPECT_THAT(feed(parser, example.bytes.substr(0, cut)), IsEmpty());
      EXPECT_EQ(parser.partialBytes(), cut);
      EXPECT_FALSE(parser.idle());
      EXPECT_THAT(feed(parser, example.bytes.substr(cut)), ElementsAre(example.parsed)) << cut;
      EXPECT_EQ(parser.partialBytes(), 0U);
    }
  }
}

TEST(RequestParserTest, ReadsEveryShapeByteByByte) {
  const StoreLimits limits;
  RequestParser parser(limits);
  for (const Example& example : allExamples()) {
    std::vector<Parsed> requests;
    for (const char byte : example.bytes) {
      EXPECT_THAT(requests, IsEmpty());
      requests = feed(parser, {&byte, 1});
    }
    EXPECT_THAT(requests, ElementsAre(example.parsed));
  }
}

TEST(RequestParserTest, ReadsManyRequestsInOnePieceInOrder) {
  const StoreLimits limits;
  RequestParser parser(limits);
  std::string bytes;
  std::vector<Parsed> expected;
  for (const Example& example : allExamples()) {
    bytes += example.bytes;
    expected.push_back(example.parsed);
  }

  EXPECT_EQ(feed(parser, bytes), expected);
  EXPECT_TRUE(parser.idle());
}

TEST(RequestParserTest, ReadsTheSameHoweverTheBytesAreCut) {
  const StoreLimits limits;
  const std::vector<Example> examples = allExamples();
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    std::string bytes;
    std::vector<Parsed> expected;
    for (int i = 0; i < 100; ++i) {
      const Example& example = examples[random() % examples.size()];
      bytes += example.bytes;
      expected.push_back(example.parsed);
    }
    RequestParser parser(limits);
    std::vector<Parsed> got;
    const std::size_t longest = 1 + random() % 200;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % longest, rest.size());
      const std::string copy(rest.substr(0, piece));  // gone when the next piece comes
      rest.remove_prefix(piece);
      std::ranges::move(feed(parser, copy), std::back_inserter(got));
    }
    ASSERT_EQ(got, expected) << "seed " << seed;
  }
}

TEST(RequestParserTest, ReadsEmptyListsKeysAndValues) {
  const StoreLimits limits;
  RequestParser parser(limits);
  RequestWriter writer;
  writer.begin(Query::WAIT).i64(0).begin(Query::MULTI_SET).i64(0);
  writer.begin(Query::SET).blob("").blob("");

  EXPECT_THAT(feed(parser, writer.bytes()), ElementsAre(Parsed(Query::WAIT, false, {}, {}, 0),
                                                        Parsed(Query::MULTI_SET, false, {}, {}, 0),
                                                        Parsed(Query::SET, false, {""}, {""}, 0)));
}

TEST(RequestParserTest, KnowsNoOtherQueryBytes) {
  std::vector<int> known;
  for (int byte = 0; byte < 256; ++byte) {
    const Status failure = failureOf(std::string(1, static_cast<char>(byte)));
    if (failure.isOk()) {
      known.push_back(byte);
    } else {
      EXPECT_EQ(failure.reason(), Reason::PROTOCOL);
      EXPECT_THAT(failure.text(), HasSubstr(str(byte)));
    }
  }
  std::vector<int> expected(19);
  std::iota(expected.begin(), expected.end(), 0);
  // Answered: set, compare_set, get, add, wait, append, multi_get, multi_set, queue_push,
  // queue_pop, list_keys, barrier, and delete_prefix.
  for (const int query : {1, 2, 3, 4, 6, 9, 10, 11, 14, 15, 17, 18, 32}) {
    expected.push_back(0x80 | query);
  }
  EXPECT_EQ(known, expected);
}

TEST(RequestParserTest, WantsAnAnswerOnlyInTheAnsweredForms) {
  const StoreLimits limits;
  for (int byte = 0; byte < 256; ++byte) {
    RequestParser parser(limits);
    const std::string first(1, static_cast<char>(byte));
    std::string_view chunk = first;
    Request request;
    const Step step = parser.next(&chunk, &request);
    EXPECT_EQ(parser.wantsAnswer(), step == Step::NEED_MORE && byte >= 0x80) << byte;
  }
}

TEST(RequestParserTest, AfterARefusalNothingOfTheRequestIsTaken) {
  const StoreLimits limits{.keyBytes = 4};
  RequestParser parser(limits);
  const std::string bytes =
      RequestWriter().begin(Query::SET, true).blob("/long").blob("value").bytes();
  std::string_view chunk = bytes;
  Request request;

  EXPECT_EQ(parser.next(&chunk, &request), Step::BAD);
  EXPECT_TRUE(parser.wantsAnswer());
  EXPECT_EQ(parser.failure().reason(), Reason::LIMIT);
}

std::string withKey(std::size_t size) {
  return RequestWriter().begin(Query::GET).blob(std::string(size, 'k')).bytes();
}
std::string withValue(std::size_t size) {
  return RequestWriter().begin(Query::SET).blob("/k").blob(std::string(size, 'v')).bytes();
}
std::string withKeys(std::size_t count) {
  RequestWriter writer;
  writer.begin(Query::CHECK).i64(static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    writer.blob("");
  }
  return writer.bytes();
}

TEST(RequestParserTest, TakesKeysUpToTheLimit) {
  EXPECT_TRUE(failureOf(withKey(8192)).isOk());
  EXPECT_EQ(failureOf(withKey(8193)).reason(), Reason::LIMIT);
  EXPECT_THAT(failureOf(withKey(8193)).text(), HasSubstr("8193; the limit is 8192"));
}

TEST(RequestParserTest, TakesValuesUpToTheLimit) {
  EXPECT_TRUE(failureOf(withValue(8'388'608)).isOk());
  EXPECT_THAT(failureOf(withValue(8'388'609)).text(), HasSubstr("8388609; the limit is 8388608"));
}

TEST(RequestParserTest, TakesListsUpToTheLimit) {
  EXPECT_TRUE(failureOf(withKeys(131'072)).isOk());
  EXPECT_THAT(failureOf(withKeys(131'073)).text(), HasSubstr("131073; the limit is 131072"));
}

TEST(RequestParserTest, LimitsHoldForEveryFieldOfEveryShape) {
  for (const Example& example : allExamples()) {
    const auto longest = [](const std::vector<std::string>& texts) {
      std::size_t most = 0;
      for (const std::string& text : texts) {
        most = std::max(most, text.size());
      }
      return most;
    };
    const std::size_t key = longest(example.parsed.keys);
    const std::size_t value = longest(example.parsed.values);
    const std::size_t count = example.parsed.keys.size();
    EXPECT_TRUE(failureOf(example.bytes, {.keyBytes = key,
                                          .valueBytes = value,
                                          .keysPerCommand = count,
                                          .commandBytes = example.bytes.size()})
                    .isOk());
    EXPECT_EQ(failureOf(example.bytes, {.keyBytes = key - 1}).isOk(), key == 0);
    EXPECT_EQ(failureOf(example.bytes, {.valueBytes = value - 1}).isOk(), value == 0);
    if (count == 3) {
      EXPECT_EQ(failureOf(example.bytes, {.keysPerCommand = 2}).reason(), Reason::LIMIT);
    }
  }
}

TEST(RequestParserTest, TakesCommandsUpToTheLimitHoweverTheyAreCut) {
  const Example example = exampleOf(*shapeOf(11), false);
  const StoreLimits enough{.commandBytes = example.bytes.size()};
  const StoreLimits less{.commandBytes = example.bytes.size() - 1};

  EXPECT_TRUE(failureOf(example.bytes, enough).isOk());
  EXPECT_EQ(failureOf(example.bytes, less).reason(), Reason::LIMIT);
  RequestParser dripped(less);
  Request request;
  Step step = Step::NEED_MORE;
  std::size_t taken = 0;
  for (; taken < example.bytes.size() && step == Step::NEED_MORE; ++taken) {
    std::string_view chunk(&example.bytes[taken], 1);
    step = dripped.next(&chunk, &request);
  }
  EXPECT_EQ(step, Step::BAD);
  EXPECT_LT(taken, example.bytes.size());  // known from the last length, before its bytes
}

TEST(RequestParserTest, AHugeCommandIsRefusedBeforeItIsKept) {
  // 9 values of 8 MiB are more than the 64 MiB of one command.
  const StoreLimits limits;
  RequestParser parser(limits);
  RequestWriter header;
  header.begin(Query::MULTI_SET).i64(9);
  ASSERT_THAT(feed(parser, header.bytes()), IsEmpty());
  const std::string pair =
      RequestWriter().blob("/k").blob(std::string(limits.valueBytes, 'v')).bytes();
  Step step = Step::NEED_MORE;
  for (int i = 0; i < 9 && step == Step::NEED_MORE; ++i) {
    std::string_view chunk = pair;
    Request request;
    step = parser.next(&chunk, &request);
  }
  EXPECT_EQ(step, Step::BAD);
  EXPECT_LE(parser.partialBytes(), limits.commandBytes);
}

TEST(RequestParserTest, AbsurdLengthsAreRefusedWithoutMemoryForThem) {
  for (const std::uint64_t length :
       {std::uint64_t{300} << 20U, std::uint64_t{1} << 62U, std::uint64_t{1} << 63U,
        ~std::uint64_t{0}, ~std::uint64_t{0} - 8, ~std::uint64_t{0} / 2}) {
    std::string bytes;
    ByteWriter(bytes).number(length);
    for (const Query query : {Query::SET, Query::CHECK, Query::WAIT, Query::MULTI_GET,
                              Query::MULTI_SET, Query::QUEUE_POP, Query::BARRIER}) {
      const std::string request = RequestWriter().begin(query).bytes() + bytes;
      test::resetPeakBytes();
      const std::size_t before = test::liveBytes();
      EXPECT_EQ(failureOf(request).reason(), Reason::LIMIT);
      EXPECT_LT(test::peakBytes() - before, 4096U);
    }
  }
}

TEST(RequestParserTest, LargeCountsOfSmallCommandsTakeNoMemoryAhead) {
  const StoreLimits limits;
  RequestParser parser(limits);
  test::resetPeakBytes();
  const std::size_t before = test::liveBytes();

  EXPECT_THAT(feed(parser, RequestWriter().begin(Query::MULTI_SET).i64(131'072).bytes()),
              IsEmpty());
  EXPECT_THAT(feed(parser, RequestWriter().blob("/k").i64(8'388'608).bytes()), IsEmpty());

  EXPECT_LT(test::peakBytes() - before, 4096U);
}

TEST(RequestParserTest, GivesBackTheMemoryOfALargeRequestWhenItIsDone) {
  const StoreLimits limits;
  RequestParser parser(limits);
  const std::string bytes = withValue(4 << 20);
  const std::size_t before = test::liveBytes();

  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(feed(parser, std::string_view(bytes).substr(0, 100)), IsEmpty());
    ASSERT_EQ(feed(parser, std::string_view(bytes).substr(100)).size(), 1U);
  }

  EXPECT_LT(test::liveBytes() - before, 5000U);
}

/// Seconds to read a MULTI_SET of `count` pairs in pieces of `piece` bytes; the best of `runs`.
double secondsFor(std::size_t count, std::size_t piece, int runs) {
  RequestWriter writer;
  writer.begin(Query::MULTI_SET).i64(static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    writer.blob("/key").blob("value");
  }
  const StoreLimits limits;
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    RequestParser parser(limits);
    Request request;
    int complete = 0;
    const double start = test::cpuSeconds();
    for (std::string_view rest = writer.bytes(); !rest.empty();) {
      std::string_view chunk = rest.substr(0, piece);
      rest.remove_prefix(chunk.size());
      complete += parser.next(&chunk, &request) == Step::REQUEST ? 1 : 0;
    }
    best = std::min(best, test::cpuSeconds() - start);
    EXPECT_EQ(complete, 1);
  }
  return best;
}

TEST(RequestParserTest, WorkGrowsWithTheBytesAndNotWithTheirSquare) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1024}, std::size_t{64 * 1024}}) {
    const double small = secondsFor(6'250, piece, 5);
    const double large = secondsFor(100'000, piece, 1);
    RecordProperty(str("ratio_", piece), str(large / small));
    EXPECT_LT(large / small, 16 * 6) << piece << " bytes at a time";  // squared it would be 256
  }
}

TEST(RequestWriterTest, WritesLittleEndianFieldsWithoutPadding) {
  const std::vector<std::string> keys = {"/a", "b"};
  RequestWriter writer;
  writer.begin(Query::WAIT).keys(keys).begin(Query::ADD, true).blob("/n").i64(-2);
  writer.begin(Query::PING).u32(0x1234);

  EXPECT_EQ(writer.bytes(), std::string("\x06\x02\0\0\0\0\0\0\0"
                                        "\x02\0\0\0\0\0\0\0/a"
                                        "\x01\0\0\0\0\0\0\0b"
                                        "\x84\x02\0\0\0\0\0\0\0/n\xfe\xff\xff\xff\xff\xff\xff\xff"
                                        "\x0d\x34\x12\0\0",
                                        9 + 10 + 9 + 9 + 2 + 8 + 5));
}

}  // namespace
}  // namespace unisono::tcp
