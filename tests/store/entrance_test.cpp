// What a server core with a secret asks of clients before it serves them.
#include "store/tcp/entrance.hpp"

#include <gmock/gmock.h>

#include "store/core_harness.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono::tcp::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::unisono::test::ScopedEnv;
using namespace std::chrono_literals;

const std::string kNoJob(kHandshakeIdSize, '\0');
const std::string kPing = req(Query::PING).u32(0x01020304).bytes();
const std::string kEcho = "\x04\x03\x02\x01";

Key keyOf(std::string_view secret) {
  return deriveKey(secret, "store");
}

std::string flipped(std::string bytes, std::size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

class EntranceTest : public ::testing::Test {
 protected:
  HandshakeConnector connector() const { return {key, kNoJob, ""}; }

  /// Greets on a new connection; its challenge goes to `*challenge`.
  ConnectionId greet(const HandshakeConnector& connector, std::string* challenge) {
    const ConnectionId id = harness.open();
    harness.send(id, connector.hello());
    *challenge = harness.take(id);
    return id;
  }

  const Key key = keyOf("what they all know");
  CoreHarness harness{StoreLimits{.helloTime = 5s}, key};
};

TEST_F(EntranceTest, WhoKnowsTheKeyIsLetInAndServed) {
  const HandshakeConnector client = connector();
  std::string challenge;
  const ConnectionId id = greet(client, &challenge);
  ASSERT_EQ(challenge.size(), kChallengeSize);
  const std::optional<std::string> proof = client.prove(challenge);
  ASSERT_TRUE(proof);

  harness.send(id, *proof);
  EXPECT_EQ(harness.take(id), kZero);
  harness.send(id, setOf("/k", "v"));
  EXPECT_EQ(harness.ask(id, req(Query::GET).blob("/k")), blob("v"));
  harness.pass(10s);
  EXPECT_TRUE(harness.isOpen(id));
}

TEST_F(EntranceTest, MayComeByteByByteOrWithRequestsBehindTheProof) {
  const HandshakeConnector client = connector();
  const ConnectionId id = harness.open();
  for (const char byte : client.hello()) {
    EXPECT_EQ(harness.take(id), "");
    harness.send(id, {&byte, 1});
  }
  const std::string proof = client.prove(harness.take(id)).value();
  for (const char byte : proof.substr(0, proof.size() - 1)) {
    harness.send(id, {&byte, 1});
    EXPECT_EQ(harness.take(id), "");
  }
  harness.send(id, proof.substr(proof.size() - 1) + kPing);
  EXPECT_EQ(harness.take(id), kZero + kEcho);
}

TEST_F(EntranceTest, EveryByteOfTheProofCounts) {
  for (std::size_t i = 0; i < kProofSize; ++i) {
    const HandshakeConnector client = connector();
    std::string challenge;
    const ConnectionId id = greet(client, &challenge);
    harness.send(id, flipped(client.prove(challenge).value(), i) + kPing);
    EXPECT_FALSE(harness.isOpen(id)) << "byte " << i;
    EXPECT_EQ(harness.take(id), "") << "byte " << i;
    EXPECT_EQ(harness.reason(id), Reason::AUTH_FAILED);
  }
}

TEST_F(EntranceTest, EveryByteOfTheGreetingCounts) {
  for (std::size_t i = 0; i < kHelloSize; ++i) {
    const HandshakeConnector client = connector();
    const ConnectionId id = harness.open();
    harness.send(id, flipped(client.hello(), i));
    // Either it is no greeting, or what the client meant is not what the server has heard.
    const std::string challenge = harness.take(id);
    EXPECT_TRUE(challenge.empty() ? !harness.isOpen(id) : !client.prove(challenge)) << "byte " << i;
  }
}

TEST_F(EntranceTest, EveryByteOfTheChallengeCounts) {
  const HandshakeConnector client = connector();
  std::string challenge;
  greet(client, &challenge);
  ASSERT_EQ(challenge.size(), kChallengeSize);
  for (std::size_t i = 0; i < kChallengeSize; ++i) {
    EXPECT_FALSE(client.prove(flipped(challenge, i))) << "byte " << i;
  }
}

TEST_F(EntranceTest, WhatWasOverheardLetsNobodyIn) {
  const HandshakeConnector client = connector();
  std::string challenge;
  const ConnectionId first = greet(client, &challenge);
  const std::string proof = client.prove(challenge).value();
  harness.send(first, proof);
  ASSERT_EQ(harness.take(first), kZero);

  std::string another;
  const ConnectionId replay = greet(client, &another);
  EXPECT_NE(another, challenge);
  harness.send(replay, proof);
  EXPECT_FALSE(harness.isOpen(replay));
  EXPECT_EQ(harness.take(replay), "");
}

TEST_F(EntranceTest, AKeyForAnotherPurposeOrJobLetsNobodyIn) {
  for (const Key& other : {deriveKey("what they all know", "mesh"), keyOf("another job's")}) {
    const HandshakeConnector stranger(other, kNoJob, "");
    std::string challenge;
    const ConnectionId id = greet(stranger, &challenge);
    EXPECT_FALSE(stranger.prove(challenge));
    // One that does not care whether the server knows its key.
    const HandshakeAcceptor mirror(other, stranger.hello());
    harness.send(id, stranger.prove(mirror.challenge()).value());
    EXPECT_FALSE(harness.isOpen(id));
    EXPECT_THAT(harness.why(id), HasSubstr("proof"));
  }
}

TEST_F(EntranceTest, WhoStopsHalfwayIsClosedAfterTheTimeForAHello) {
  const HandshakeConnector client = connector();
  for (std::size_t i = 1; i <= kHelloSize; ++i) {
    const ConnectionId id = harness.open();
    harness.send(id, client.hello().substr(0, i));
    EXPECT_EQ(harness.take(id).size(), i == kHelloSize ? kChallengeSize : 0) << i << " bytes";
    EXPECT_TRUE(harness.isOpen(id)) << i << " bytes";
  }
  std::vector<ConnectionId> proving;
  for (std::size_t i = 1; i < kProofSize; ++i) {
    std::string challenge;
    proving.push_back(greet(client, &challenge));
    harness.send(proving.back(), client.prove(challenge).value().substr(0, i));
    EXPECT_EQ(harness.take(proving.back()), "") << i << " bytes";
  }
  harness.pass(4s);
  EXPECT_TRUE(harness.isOpen(proving.front()));
  harness.send(proving.front(), "x");  // one more byte does not win more time
  harness.pass(3s);
  EXPECT_EQ(harness.core.connectionCount(), 0U);
  EXPECT_EQ(harness.reason(proving.front()), Reason::TIMEOUT);
}

TEST_F(EntranceTest, ThoseAtTheEntranceAreTheFirstToGoWhenTheyAreTooMany) {
  CoreHarness small{StoreLimits{.unvalidated = 2}, key};
  const HandshakeConnector client = connector();
  const ConnectionId first = small.open();
  small.send(first, client.hello());
  ASSERT_EQ(small.take(first).size(), kChallengeSize);
  small.open();
  EXPECT_TRUE(small.isOpen(first));
  small.open();
  EXPECT_FALSE(small.isOpen(first));
  EXPECT_EQ(small.reason(first), Reason::LIMIT);
}

TEST_F(EntranceTest, WhoDoesNotGreetIsClosedWithoutAWord) {
  for (const std::string& bytes : {kHello + kPing, std::string("GET / HTTP/1.1\r\n"), kPing}) {
    const ConnectionId id = harness.open();
    harness.send(id, bytes);
    EXPECT_FALSE(harness.isOpen(id));
    EXPECT_EQ(harness.take(id), "");
  }
  const ConnectionId stock = harness.connect();
  EXPECT_EQ(harness.reason(stock), Reason::AUTH_FAILED);
  EXPECT_THAT(harness.why(stock), HasSubstr("UNISONO_AUTH_SECRET_FILE"));
}

TEST_F(EntranceTest, WhoNeedsNoProofMaySayHelloWithoutOne) {
  const ConnectionId stock = harness.open(true);
  for (const char byte : kHello + kPing) {
    EXPECT_EQ(harness.take(stock), "");
    harness.send(stock, {&byte, 1});
  }
  EXPECT_EQ(harness.take(stock), kEcho);

  const HandshakeConnector client = connector();
  const ConnectionId ours = harness.open(true);
  harness.send(ours, client.hello());
  harness.send(ours, client.prove(harness.take(ours)).value() + kPing);
  EXPECT_EQ(harness.take(ours), kZero + kEcho);
}

TEST_F(EntranceTest, WhoNeedsNoProofStillHasToSayHello) {
  const HandshakeConnector client = connector();
  const std::string wrongProof(kProofSize, 'p');
  for (const std::string& bytes : {kPing, std::string("GET / HTTP/1.1\r\n"), hex("00 ce f7 85 3d"),
                                   client.hello() + wrongProof + kPing}) {
    const ConnectionId id = harness.open(true);
    harness.send(id, bytes);
    EXPECT_FALSE(harness.isOpen(id));
    EXPECT_THAT(harness.take(id), Not(HasSubstr(kEcho)));
  }
  const ConnectionId silent = harness.open(true);
  harness.pass(7s);
  EXPECT_EQ(harness.reason(silent), Reason::TIMEOUT);
}

TEST_F(EntranceTest, AServerWithoutASecretClosesWhoGreets) {
  CoreHarness open;
  const ConnectionId id = open.open();
  open.send(id, connector().hello());
  EXPECT_FALSE(open.isOpen(id));
  EXPECT_EQ(open.take(id), "");
  EXPECT_EQ(open.reason(id), Reason::AUTH_FAILED);
  EXPECT_THAT(open.why(id), HasSubstr("this server has none"));
}

TEST_F(EntranceTest, SaysOfWhomItAskedForAProofThatTheyLeft) {
  std::string challenge;
  const ConnectionId id = harness.open();
  EXPECT_FALSE(harness.core.whyItLeft(id));
  harness.send(id, connector().hello());
  EXPECT_THAT(harness.core.whyItLeft(id).value_or(Status::ok()).text(), HasSubstr("secret"));
  const HandshakeConnector client = connector();
  const ConnectionId in = greet(client, &challenge);
  harness.send(in, client.prove(challenge).value());
  EXPECT_FALSE(harness.core.whyItLeft(in));
}

TEST(StoreKeyTest, IsMadeOfTheJobsSecret) {
  EXPECT_FALSE(storeKey());
  const ScopedEnv secret("UNISONO_AUTH_SECRET", "what they all know");
  EXPECT_EQ(storeKey(), keyOf("what they all know"));
}

}  // namespace
}  // namespace unisono::tcp::test
