// The wire protocol byte by byte, as clients of other makes speak it.
#include <gmock/gmock.h>

#include "base/str.hpp"
#include "store/core_harness.hpp"
#include "store/wire_rows.hpp"

namespace unisono::tcp {
namespace {

using test::blob;
using test::CoreHarness;
using test::hex;
using test::i64;
using test::kHello;
using test::kOne;
using test::kZero;
using test::req;
using test::setOf;
using test::WireRow;
using test::wireRows;
using ::testing::HasSubstr;

class WireTest : public testing::TestWithParam<WireRow> {};

TEST_P(WireTest, AnswersByteForByte) {
  CoreHarness server;
  const ConnectionId other = server.connect();
  const ConnectionId client = server.connect();
  server.send(other, GetParam().before);

  server.send(client, hex(GetParam().request));

  EXPECT_EQ(server.take(client), hex(GetParam().reply));
  EXPECT_TRUE(server.isOpen(client));
}

TEST_P(WireTest, AnswersByteForByteHoweverTheRequestIsCut) {
  const std::string request = kHello + hex(GetParam().request);
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    CoreHarness server;
    const ConnectionId other = server.connect();
    const ConnectionId client = server.open();
    server.send(other, GetParam().before);
    server.send(client, request.substr(0, cut));
    server.send(client, request.substr(cut));
    EXPECT_EQ(server.take(client), hex(GetParam().reply)) << "cut at " << cut;
    EXPECT_TRUE(server.isOpen(client));
  }
}

TEST_P(WireTest, DoesNothingBeforeTheLastByteHasCome) {
  const std::string request = hex(GetParam().request);
  CoreHarness server;
  const ConnectionId other = server.connect();
  const ConnectionId client = server.connect();
  server.send(other, GetParam().before);
  const std::uint64_t before = server.core.table().contentBytes();

  server.send(client, request.substr(0, request.size() - 1));

  EXPECT_EQ(server.take(client), "");
  EXPECT_EQ(server.core.table().contentBytes(), before);
}
INSTANTIATE_TEST_SUITE_P(Requests, WireTest, testing::ValuesIn(wireRows()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(StoreCoreWireTest, ListsWorkersAndUserKeysAsTheyAreOnTheWire) {
  CoreHarness server;
  const ConnectionId client = server.connect();
  server.ask(client, req(Query::ADD).blob("init/").i64(1));
  server.send(client, setOf("/foo", ""));

  const std::string count = hex("02 00 00 00 00 00 00 00");
  const std::string init = hex("05 00 00 00 00 00 00 00 69 6e 69 74 2f");
  const std::string foo = hex("04 00 00 00 00 00 00 00 2f 66 6f 6f");
  EXPECT_EQ(server.ask(client, req(Query::LIST_KEYS)), count + foo + init);
}

TEST(StoreCoreWireTest, AWaitIsAnsweredWhenItsLastKeyComes) {
  CoreHarness server;
  const ConnectionId setter = server.connect();
  const ConnectionId waiter = server.connect();

  EXPECT_EQ(server.ask(waiter, test::waitOf({"/a", "/b"})), "");
  server.send(setter, setOf("/a", "1"));
  EXPECT_EQ(server.take(waiter), "");
  server.send(setter, setOf("/b", ""));

  EXPECT_EQ(server.take(waiter), kZero);
  EXPECT_EQ(server.take(setter), "");
}

TEST(StoreCoreWireTest, ABarrierAnswersAllWhoArrived) {
  CoreHarness server;
  const ConnectionId a = server.connect();
  const ConnectionId b = server.connect();
  const ConnectionId c = server.connect();
  const RequestWriter barrier = req(Query::BARRIER).blob("/b").i64(3);

  EXPECT_EQ(server.ask(a, barrier), "");
  EXPECT_EQ(server.ask(b, barrier), "");
  EXPECT_EQ(server.ask(c, barrier), kZero);
  EXPECT_EQ(server.take(a), kZero);
  EXPECT_EQ(server.take(b), kZero);
  EXPECT_EQ(server.ask(a, req(Query::GET).blob("/b")), blob("3"));
}

TEST(StoreCoreHandshakeTest, TakesTheHelloCutAnywhereAndPingsBehindIt) {
  const std::string bytes = kHello + hex("0d 01 02 03 04");
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    CoreHarness server;
    const ConnectionId client = server.open();
    server.send(client, bytes.substr(0, cut));
    server.send(client, bytes.substr(cut));
    EXPECT_EQ(server.take(client), hex("01 02 03 04")) << "cut at " << cut;
  }
}

TEST(StoreCoreHandshakeTest, ClosesAtOnceOnAnyOtherFirstByte) {
  for (int byte = 1; byte < 256; ++byte) {
    CoreHarness server;
    const ConnectionId client = server.open();
    server.send(client, std::string(1, static_cast<char>(byte)));
    EXPECT_FALSE(server.isOpen(client)) << byte;
    const bool greets = static_cast<char>(byte) == kHelloByte;  // to prove what we do not ask for
    EXPECT_EQ(server.reason(client), greets ? Reason::AUTH_FAILED : Reason::PROTOCOL) << byte;
    EXPECT_EQ(server.take(client), "");
  }
}

TEST(StoreCoreHandshakeTest, ServesNobodyWhoBeginsWithACommandInPieces) {
  CoreHarness server;
  const ConnectionId client = server.open();
  const std::string set = setOf("/k", "v").bytes();
  server.send(client, set.substr(0, 1));
  server.core.receive(client, set.substr(1), server.now);
  server.core.receive(client, set, server.now);

  EXPECT_FALSE(server.isOpen(client));
  EXPECT_EQ(server.core.table().size(), 0U);
}

TEST(StoreCoreHandshakeTest, ClosesOnAWrongMagicWithoutLookingFurther) {
  CoreHarness server;
  const ConnectionId client = server.open();
  server.send(client, hex("00 ce f7 85"));
  EXPECT_TRUE(server.isOpen(client));

  server.send(client, hex("3d") + setOf("/k", "v").bytes());

  EXPECT_EQ(server.reason(client), Reason::PROTOCOL);
  EXPECT_THAT(server.why(client), HasSubstr("magic"));
  EXPECT_EQ(server.core.table().size(), 0U);
}

TEST(StoreCoreHandshakeTest, ClosesOnASecondHello) {
  CoreHarness server;
  const ConnectionId client = server.connect();

  server.send(client, kHello);

  EXPECT_EQ(server.reason(client), Reason::PROTOCOL);
}

TEST(StoreCoreHandshakeTest, SaysWhatStrangersSeemToSpeak) {
  const std::pair<std::string, std::string_view> strangers[] = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"},
      {hex("16 03 01 02 00 01 00 01 fc 03 03"), "TLS"},
      {"*1\r\n$4\r\nPING\r\n", "Redis"},
      {hex("ff") + "UNI1", "something else"}};
  for (const auto& [bytes, named] : strangers) {
    CoreHarness server;
    const ConnectionId client = server.open();
    server.send(client, bytes);
    EXPECT_EQ(server.reason(client), Reason::PROTOCOL);
    EXPECT_THAT(server.why(client), HasSubstr(named));
    EXPECT_EQ(server.core.connectionCount(), 0U);
  }
}

TEST(StoreCoreHandshakeTest, ClosesWhoDoesNotFinishTheHelloInTime) {
  CoreHarness server;
  const ConnectionId silent = server.open();
  const ConnectionId dripping = server.open();
  for (const char byte : std::string_view(kHello).substr(0, 4)) {
    server.send(dripping, {&byte, 1});
    server.pass(Milliseconds(1200));
  }
  EXPECT_TRUE(server.isOpen(silent));
  EXPECT_TRUE(server.isOpen(dripping));

  server.pass(Milliseconds(1500));

  EXPECT_EQ(server.reason(silent), Reason::TIMEOUT);
  EXPECT_EQ(server.reason(dripping), Reason::TIMEOUT);
}

TEST(StoreCoreHandshakeTest, ClosesTheOldestOfTooManyWhoHaveNotSaidHello) {
  CoreHarness server({.unvalidated = 3});
  const ConnectionId served = server.connect();
  const ConnectionId a = server.open();
  const ConnectionId b = server.open();
  const ConnectionId c = server.open();
  server.send(b, kHello);
  const ConnectionId d = server.open();
  EXPECT_EQ(server.core.connectionCount(), 5U);

  server.open();

  EXPECT_EQ(server.reason(a), Reason::LIMIT);
  for (const ConnectionId id : {served, b, c, d}) {
    EXPECT_TRUE(server.isOpen(id));
  }
}

TEST(StoreCoreHandshakeTest, ClosesOnUnknownQueriesWhateverTheyBegin) {
  for (int byte = 0x13; byte < 256; ++byte) {
    if (shapeOf(static_cast<std::uint8_t>(byte)) != nullptr) {
      continue;
    }
    CoreHarness server;
    const ConnectionId client = server.connect();
    server.send(client,
                setOf("/k", "v").bytes() + static_cast<char>(byte) + setOf("/l", "").bytes());
    EXPECT_EQ(server.reason(client), Reason::PROTOCOL);
    EXPECT_EQ(server.take(client), "") << byte;
    EXPECT_EQ(server.core.table().size(), 1U);  // what came before was done, what follows is not
  }
}

TEST(StoreCoreProbeTest, OnlyOurServersHaveTheCapabilityKey) {
  CoreHarness server;
  const ConnectionId client = server.connect();
  const std::vector<std::string> key = {std::string(kCapabilityKey)};

  EXPECT_EQ(server.ask(client, req(Query::CHECK).keys(key)), kZero);
  const std::string record = server.ask(client, req(Query::GET).blob(kCapabilityKey));

  ByteReader reader(record);
  EXPECT_EQ(reader.number<std::uint64_t>(), record.size() - 8);
  EXPECT_EQ(reader.number<std::uint32_t>(), kCapabilityVersion);
  EXPECT_EQ(reader.number<std::uint64_t>(), kFeatureAnswered | kFeatureListing);
  EXPECT_EQ(reader.number<std::uint64_t>(), 8192U);
  EXPECT_EQ(reader.number<std::uint64_t>(), 8'388'608U);
  EXPECT_EQ(reader.number<std::uint64_t>(), 131'072U);
  EXPECT_EQ(reader.number<std::uint64_t>(), 67'108'864U);
  EXPECT_EQ(reader.rest(), "");
  EXPECT_EQ(server.ask(client, req(Query::NUM_KEYS)), i64(0));
  EXPECT_EQ(server.ask(client, req(Query::LIST_KEYS)), i64(0));
}

}  // namespace
}  // namespace unisono::tcp
