// What no client should send, to the real servers: the one who sends it is closed, nobody else
// notices, and nothing of it stays.
#include <functional>
#include <gmock/gmock.h>
#include <tuple>

#include "base/str.hpp"
#include "store/raw_client.hpp"
#include "store/running_server.hpp"
#include "store/wire_rows.hpp"
#include "support/memory.hpp"
#include "support/support.hpp"

namespace unisono::tcp {
namespace {

using test::ask;
using test::blob;
using test::hex;
using test::i64;
using test::kHello;
using test::kOne;
using test::kZero;
using test::pushOf;
using test::RawClient;
using test::req;
using test::setOf;
using test::waitOf;
using test::WireRow;
using test::wireRows;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::unisono::test::eventually;
using ::unisono::test::liveBytes;
using ::unisono::test::LogCapture;
using ::unisono::test::peakBytes;
using ::unisono::test::resetPeakBytes;

constexpr std::size_t kMiB = 1024 * 1024;
constexpr std::int64_t kMostKeys = 131'072;
const std::string kLongestKey = "/" + std::string(8191, 'k');
const std::string kTooLongKey = kLongestKey + "k";

std::string largest(std::size_t more = 0) {
  return std::string(8 * kMiB + more, 'v');
}

/// A request for `count` keys, with their values in a MULTI_SET; the keys are all the same.
std::string forKeys(Query query, std::int64_t count) {
  RequestWriter writer;
  writer.begin(query).i64(count);
  for (std::int64_t i = 0; i < count; ++i) {
    writer.blob("/t");
    if (query == Query::MULTI_SET) {
      writer.blob("");
    }
  }
  return writer.bytes();
}

std::string largePairs(std::size_t count) {
  RequestWriter writer;
  writer.begin(Query::MULTI_SET).i64(static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    writer.blob(str("/", i)).blob(largest());
  }
  return writer.bytes();
}

// --- What costs a connection --------------------------------------------------------------------

/// What is sent over a connection, and the reason that the server logs when it closes it. Before
/// it somebody has set "/t" to "text" and "/full" to a value that nothing can be added to.
struct HostileRow {
  std::string_view name;
  std::function<std::string()> bytes;
  std::string_view reason;
  std::size_t mostMemory = 2 * kMiB;

  friend void PrintTo(const HostileRow& row, std::ostream* out) { *out << row.name; }
};

std::string greeted(const RequestWriter& request) {
  return kHello + request.bytes();
}

std::vector<HostileRow> hostileRows() {
  return {
      // Not a client.
      {"FirstByteOfACommand", [] { return setOf("/k", "v").bytes(); }, "PROTOCOL"},
      {"WrongMagic", [] { return hex("00 ce f7 85 3d") + setOf("/k", "v").bytes(); }, "PROTOCOL"},
      {"MagicOfAnotherByteOrder", [] { return hex("00 3c 85 f7 ce"); }, "PROTOCOL"},
      {"SecondHello", [] { return kHello + kHello; }, "PROTOCOL"},
      {"FirstUnknownQuery", [] { return kHello + "\x13"; }, "PROTOCOL"},
      {"LastUnknownQuery", [] { return kHello + "\xff"; }, "PROTOCOL"},
      {"AnsweredHello", [] { return kHello + "\x80"; }, "PROTOCOL"},
      {"StockDeletePrefix", [] { return kHello + "\x20" + blob("/"); }, "PROTOCOL"},
      {"Http", [] { return std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); }, "PROTOCOL"},
      {"Tls", [] { return hex("16 03 01 02 00 01 00 01 fc 03 03"); }, "PROTOCOL"},

      // One more than is allowed.
      {"KeyTooLong", [] { return greeted(setOf(kTooLongKey, "v")); }, "LIMIT"},
      {"KeyToGetTooLong", [] { return greeted(req(Query::GET).blob(kTooLongKey)); }, "LIMIT"},
      {"KeyToAddTooLong", [] { return greeted(req(Query::ADD).blob(kTooLongKey).i64(1)); },
       "LIMIT"},
      {"KeyToWaitForTooLong",
       [] {
         return greeted(waitOf({"/t", kTooLongKey}));
       },
       "LIMIT"},
      {"ValueTooLong", [] { return greeted(setOf("/k", largest(1))); }, "LIMIT"},
      {"AppendedTooLong", [] { return greeted(req(Query::APPEND).blob("/k").blob(largest(1))); },
       "LIMIT"},
      {"AppendedToTheLongestValue",
       [] { return greeted(req(Query::APPEND).blob("/full").blob("v")); }, "LIMIT"},
      {"PushedTooLong", [] { return greeted(pushOf("/q", largest(1))); }, "LIMIT"},
      {"DesiredTooLong",
       [] { return greeted(req(Query::COMPARE_SET).blob("/k").blob("").blob(largest(1))); },
       "LIMIT"},
      {"CheckOfTooManyKeys", [] { return kHello + forKeys(Query::CHECK, kMostKeys + 1); }, "LIMIT"},
      {"WaitForTooManyKeys", [] { return kHello + forKeys(Query::WAIT, kMostKeys + 1); }, "LIMIT"},
      {"GetOfTooManyKeys", [] { return kHello + forKeys(Query::MULTI_GET, kMostKeys + 1); },
       "LIMIT"},
      {"SetOfTooManyKeys", [] { return kHello + forKeys(Query::MULTI_SET, kMostKeys + 1); },
       "LIMIT"},
      {"TooMuchInOneCommand", [] { return kHello + largePairs(8); }, "LIMIT", 200 * kMiB},
      {"ReplyTooLong",
       [] {
         RequestWriter many;
         many.begin(Query::MULTI_GET).i64(9);
         for (int i = 0; i < 9; ++i) {
           many.blob("/full");
         }
         return greeted(many);
       },
       "LIMIT"},

      // Well formed, but nothing that can be done.
      {"AddToText", [] { return greeted(req(Query::ADD).blob("/t").i64(1)); }, "USAGE"},
      {"BarrierOnText", [] { return greeted(req(Query::BARRIER).blob("/t").i64(2)); }, "USAGE"},
  };
}

class HostileInputTest : public testing::TestWithParam<std::tuple<bool, HostileRow>>,
                         protected test::RunningServer {
 protected:
  HostileInputTest() : RunningServer(std::get<0>(GetParam())) {}
};

TEST_P(HostileInputTest, CostsItsOwnConnectionAndLeavesNothing) {
  const HostileRow& row = std::get<1>(GetParam());
  const LogCapture log;
  start();
  RawClient honest = connect();
  RawClient waiter = connect();
  ASSERT_TRUE(honest.send(setOf("/t", "text").bytes() + setOf("/full", largest()).bytes()));
  ASSERT_TRUE(honest.served());
  ASSERT_TRUE(waiter.send(waitOf({"/later"})));
  ASSERT_TRUE(waiter.served());
  const std::string bytes = row.bytes();
  const std::size_t before = liveBytes();
  resetPeakBytes();

  {
    RawClient hostile(server->address());
    static_cast<void>(hostile.send(bytes));  // the server may have closed before it is all gone
    EXPECT_TRUE(hostile.ended());
  }

  EXPECT_TRUE(eventually([&] { return server->connectionCount() == 2; }));
  EXPECT_LT(peakBytes(), before + row.mostMemory);
  EXPECT_LT(liveBytes(), before + 100'000);
  EXPECT_THAT(log.lines(), Contains(HasSubstr(str("[", row.reason, "]"))));
  EXPECT_EQ(honest.ask(req(Query::GET).blob("/t"), 12), blob("text"));
  EXPECT_EQ(honest.ask(req(Query::NUM_KEYS), 8), i64(2));
  EXPECT_EQ(honest.ask(req(Query::QUEUE_LEN).blob("/q"), 8), i64(0));
  EXPECT_TRUE(honest.send(setOf("/later", "")));
  EXPECT_EQ(waiter.receive(1), kZero);
}
INSTANTIATE_TEST_SUITE_P(Loops, HostileInputTest,
                         testing::Combine(testing::Bool(), testing::ValuesIn(hostileRows())),
                         [](const auto& both) {
                           return str(std::get<0>(both.param) ? "Libuv" : "Poll", "_",
                                      std::get<1>(both.param).name);
                         });

// --- What both servers do alike -----------------------------------------------------------------

class ServerWireTest : public testing::TestWithParam<bool>, protected test::RunningServer {
 protected:
  ServerWireTest() : RunningServer(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Loops, ServerWireTest, testing::Bool(),
                         [](const auto& loop) { return loop.param ? "Libuv" : "Poll"; });

TEST_P(ServerWireTest, AnswersEveryRequestByteForByte) {
  for (const WireRow& row : wireRows()) {
    SCOPED_TRACE(row.name);
    start();
    RawClient other = connect();
    RawClient client = connect();
    ASSERT_TRUE(other.send(row.before) && other.served());

    ASSERT_TRUE(client.send(hex(row.request)));

    const std::string reply = hex(row.reply);
    EXPECT_EQ(client.receive(reply.size()), reply);
    EXPECT_TRUE(client.served()) << "nothing but the reply may come";
  }
}

TEST_P(ServerWireTest, AnswersAlsoWhenEveryByteComesAlone) {
  for (const WireRow& row : wireRows()) {
    SCOPED_TRACE(row.name);
    start();
    RawClient other = connect();
    RawClient bystander = connect();
    RawClient client(server->address());
    ASSERT_TRUE(other.send(row.before) && other.served());

    for (const char byte : kHello + hex(row.request)) {
      ASSERT_TRUE(client.send({&byte, 1}));
      ASSERT_TRUE(bystander.served());  // and nobody waits for the rest of it
    }

    const std::string reply = hex(row.reply);
    EXPECT_EQ(client.receive(reply.size()), reply);
    EXPECT_TRUE(client.served()) << "nothing but the reply may come";
  }
}

TEST_P(ServerWireTest, TakesAsMuchAsItAllows) {
  start();
  RawClient client = connect();

  EXPECT_TRUE(client.send(setOf(kLongestKey, largest())));
  EXPECT_TRUE(client.ask(req(Query::GET).blob(kLongestKey), 8 * kMiB + 8) == blob(largest()));
  EXPECT_TRUE(client.send(forKeys(Query::MULTI_SET, kMostKeys)));
  EXPECT_TRUE(client.send(forKeys(Query::CHECK, kMostKeys)));
  EXPECT_EQ(client.receive(1), kZero);
  EXPECT_TRUE(client.send(forKeys(Query::WAIT, kMostKeys)));
  EXPECT_EQ(client.receive(1), kZero);
  EXPECT_TRUE(client.send(forKeys(Query::MULTI_GET, kMostKeys)));
  EXPECT_TRUE(client.receive(8 * kMostKeys) == std::string(8 * kMostKeys, '\0'));
  EXPECT_TRUE(client.served());
}

TEST_P(ServerWireTest, AMissingKeyReadsAsEmpty) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(setOf("/k", "v")));

  EXPECT_EQ(client.ask(req(Query::GET).blob("/none"), 8), blob(""));
  EXPECT_EQ(client.ask(req(Query::MULTI_GET).i64(3).blob("/n").blob("/k").blob("/n"), 25),
            blob("") + blob("v") + blob(""));
}

TEST_P(ServerWireTest, OnlyOurServersHaveTheCapabilityKey) {
  start();
  RawClient client = connect();

  EXPECT_EQ(client.ask(req(Query::CHECK).i64(1).blob(kCapabilityKey), 1), kZero);
  EXPECT_EQ(client.ask(req(Query::CHECK).i64(1).blob("unisono/other"), 1), kOne);
  EXPECT_EQ(client.ask(req(Query::GET).blob(kCapabilityKey), 8 + 44).substr(0, 12),
            i64(44) + hex("01 00 00 00"));
  EXPECT_EQ(client.ask(req(Query::NUM_KEYS), 8), i64(0));
  EXPECT_EQ(client.ask(req(Query::LIST_KEYS), 8), i64(0));
}

TEST_P(ServerWireTest, RefusesWithATextThoseWhoAskedForAnAnswer) {
  start();
  RawClient client = connect();
  ASSERT_TRUE(client.send(setOf("/t", "text")));
  const RequestWriter refused[] = {ask(Query::ADD).blob("/t").i64(1),
                                   ask(Query::BARRIER).blob("/t").i64(2)};
  for (const RequestWriter& request : refused) {
    EXPECT_EQ(client.ask(request, 14), "\2" + blob("USAGE"));
    const std::string size = client.receive(8);
    EXPECT_THAT(client.receive(static_cast<std::uint8_t>(size[0])), HasSubstr("'text'"));
    EXPECT_TRUE(client.served());
  }
  EXPECT_EQ(client.ask(req(Query::GET).blob("/t"), 12), blob("text"));
}

/// Every request that has a length or a count in it, up to there and with `length` in its place.
std::vector<std::string> requestsWith(std::uint64_t length) {
  std::vector<std::string> requests;
  for (const Shape& shape : kShapes) {
    for (const bool answered : {false, true}) {
      RequestWriter good;
      good.begin(shape.query, answered);
      for (const Field field : shape.fields) {
        if (field != Field::END && field != Field::U32 && field != Field::I64 &&
            (answered ? shape.answered : shape.stock)) {
          requests.push_back(good.bytes() + i64(static_cast<std::int64_t>(length)));
        }
        good.blob("/k");
      }
    }
  }
  return requests;
}

TEST_P(ServerWireTest, NoLengthHoweverAbsurdCostsMemory) {
  const LogCapture log;
  start();
  RawClient honest = connect();
  ASSERT_TRUE(honest.served());
  std::size_t sent = 0;
  for (const std::uint64_t length : {std::uint64_t{300} * kMiB, std::uint64_t{1} << 62U,
                                     std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    for (const std::string& request : requestsWith(length)) {
      const std::size_t before = liveBytes();
      resetPeakBytes();
      RawClient client = connect();
      ASSERT_TRUE(client.send(request));
      ASSERT_TRUE(client.ended()) << "query " << int{request[0]} << ", length " << length;
      ASSERT_LT(peakBytes(), before + kMiB);
      ++sent;
    }
  }
  EXPECT_GT(sent, 4U * 25);
  EXPECT_TRUE(honest.served());
  EXPECT_EQ(honest.ask(req(Query::NUM_KEYS), 8), i64(0));
}

TEST_P(ServerWireTest, ForgetsRequestsThatWereNeverFinished) {
  start();
  RawClient honest = connect();
  ASSERT_TRUE(honest.served());
  const std::string most = setOf("/k", largest()).bytes().substr(0, 8 * kMiB);
  const std::size_t before = liveBytes();
  for (int i = 0; i < 20; ++i) {
    RawClient aborting = connect();
    ASSERT_TRUE(aborting.send(most));
    i % 2 == 0 ? aborting.close() : aborting.reset();
    ASSERT_TRUE(honest.served());
  }

  EXPECT_TRUE(eventually([&] { return server->connectionCount() == 1; }));
  EXPECT_LT(liveBytes(), before + 100'000);
  EXPECT_EQ(honest.ask(req(Query::NUM_KEYS), 8), i64(0));
}

TEST_P(ServerWireTest, ARequestThatDripsInTakesNoMoreThanItsBytes) {
  start();
  RawClient honest = connect();
  RawClient dripping = connect();
  const std::string request = setOf("/k", std::string(20'000, 'v')).bytes();
  ASSERT_TRUE(honest.served());
  const std::size_t before = liveBytes();
  resetPeakBytes();

  for (std::size_t i = 0; i < request.size(); ++i) {
    ASSERT_TRUE(dripping.send(std::string_view(request).substr(i, 1)));
    if (i % 100 == 0) {
      ASSERT_TRUE(honest.served());
    }
  }

  EXPECT_TRUE(dripping.served());
  EXPECT_LT(peakBytes(), before + 500'000);
  EXPECT_EQ(honest.ask(req(Query::NUM_KEYS), 8), i64(1));
}

TEST_P(ServerWireTest, RepliesThatNobodyTakesDoNotFillItsMemory) {
  start();
  RawClient honest = connect();
  RawClient deaf = connect(16 * 1024);
  ASSERT_TRUE(honest.send(setOf("/k", std::string(kMiB, 'v'))));
  ASSERT_TRUE(honest.served());
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    many += req(Query::GET).blob("/k").bytes();
  }
  const std::size_t before = liveBytes();
  resetPeakBytes();

  std::size_t sent = 0;
  do {
    sent += deaf.sendSome(std::string_view(many).substr(sent));
    ASSERT_TRUE(honest.served());
  } while (sent < many.size() / 2);

  EXPECT_LT(peakBytes(), before + 16 * kMiB) << "it asked for a thousand times 1 MiB";
  deaf.reset();
  EXPECT_TRUE(eventually([&] { return server->connectionCount() == 1; }));
  EXPECT_LT(liveBytes(), before + 100'000);
}

TEST_P(ServerWireTest, AMultiSetIsInvisibleUntilItIsComplete) {
  start();
  RawClient honest = connect();
  RawClient slow = connect();
  const std::string request =
      req(Query::MULTI_SET).i64(2).blob("/a").blob("1").blob("/b").blob("1").bytes();
  ASSERT_TRUE(slow.send(std::string_view(request).substr(0, 31)));
  ASSERT_TRUE(honest.send(setOf("/a", "2")));
  for (const char byte : request.substr(31, request.size() - 32)) {
    ASSERT_TRUE(slow.send({&byte, 1}));
    ASSERT_EQ(honest.ask(req(Query::GET).blob("/a"), 9), blob("2"));
  }

  ASSERT_TRUE(slow.send(std::string_view(request).substr(request.size() - 1)) && slow.served());

  EXPECT_EQ(honest.ask(req(Query::GET).blob("/a"), 9), blob("1"));
  EXPECT_EQ(honest.ask(req(Query::GET).blob("/b"), 9), blob("1"));
}

TEST_P(ServerWireTest, NothingIsServedBeforeTheHelloHoweverItIsCut) {
  const LogCapture log;
  start();
  RawClient honest = connect();
  const std::string set = setOf("/k", "v").bytes();
  for (std::size_t cut = 1; cut < set.size(); ++cut) {
    RawClient bypass(server->address());
    ASSERT_TRUE(bypass.send(std::string_view(set).substr(0, cut)));
    ASSERT_TRUE(honest.served());
    static_cast<void>(bypass.send(std::string_view(set).substr(cut)));
    EXPECT_TRUE(bypass.ended()) << cut;
  }
  EXPECT_EQ(honest.ask(req(Query::NUM_KEYS), 8), i64(0));
}

}  // namespace
}  // namespace unisono::tcp
