#include "launch/passage.hpp"

#include <gmock/gmock.h>
#include <string>
#include <utility>

#include "store/tcp/codec.hpp"

namespace unisono::launch {
namespace {

using Side = Passage::Side;

const Key kKey = deriveKey("a secret of some length", "store");

std::string stockHello() {
  return tcp::RequestWriter().begin(tcp::Query::VALIDATE).u32(tcp::kMagic).bytes();
}

std::string taken(Passage& passage, Side side) {
  return std::exchange(passage.pendingFor(side), {});
}

TEST(PassageTest, ProvesTheSecretInPlaceOfAStockClient) {
  Passage passage(kKey);
  for (const char c : stockHello()) {  // in any pieces
    ASSERT_TRUE(passage.wantsFrom(Side::NEAR));
    ASSERT_TRUE(passage.take(Side::NEAR, {&c, 1}).isOk());
  }
  EXPECT_FALSE(passage.wantsFrom(Side::NEAR)) << "until the store lets it in";
  const HandshakeAcceptor store(kKey, taken(passage, Side::FAR));
  ASSERT_TRUE(passage.take(Side::FAR, store.challenge()).isOk());
  EXPECT_TRUE(store.accepts(taken(passage, Side::FAR)));
  ASSERT_TRUE(passage.take(Side::FAR, std::string(1, kWelcome) + "answer").isOk());

  EXPECT_EQ(taken(passage, Side::NEAR), "answer") << "without the welcome, which it knows not";
  ASSERT_TRUE(passage.take(Side::NEAR, "question").isOk());
  EXPECT_EQ(taken(passage, Side::FAR), "question");
}

TEST(PassageTest, PassesOnWhatAStockClientSaidTooEarly) {
  Passage passage(kKey);
  ASSERT_TRUE(passage.take(Side::NEAR, stockHello() + "ping").isOk());
  const HandshakeAcceptor store(kKey, taken(passage, Side::FAR));
  ASSERT_TRUE(passage.take(Side::FAR, store.challenge()).isOk());
  static_cast<void>(taken(passage, Side::FAR));
  ASSERT_TRUE(passage.take(Side::FAR, std::string(1, kWelcome)).isOk());

  EXPECT_EQ(taken(passage, Side::FAR), "ping");
}

TEST(PassageTest, LeavesThoseAloneWhoProveItThemselves) {
  Passage passage(kKey);
  const HandshakeConnector client(kKey, std::string(kHandshakeIdSize, '\0'), "");
  ASSERT_TRUE(passage.take(Side::NEAR, client.hello()).isOk());
  ASSERT_TRUE(passage.take(Side::FAR, "challenge").isOk());

  EXPECT_EQ(taken(passage, Side::FAR), client.hello());
  EXPECT_EQ(taken(passage, Side::NEAR), "challenge");
}

TEST(PassageTest, DoesNotTalkToAStoreWithAnotherSecret) {
  Passage passage(kKey);
  ASSERT_TRUE(passage.take(Side::NEAR, stockHello()).isOk());
  const HandshakeAcceptor other(deriveKey("another secret of that length", "store"),
                                taken(passage, Side::FAR));

  EXPECT_EQ(passage.take(Side::FAR, other.challenge()).reason(), Reason::AUTH_FAILED);
}

TEST(PassageTest, TakesNoMoreThanWasPassedOn) {
  Passage passage(kKey);
  ASSERT_TRUE(passage.take(Side::NEAR, "\x01").isOk());
  EXPECT_FALSE(passage.wantsFrom(Side::NEAR));
  static_cast<void>(taken(passage, Side::FAR));
  EXPECT_TRUE(passage.wantsFrom(Side::NEAR));
}

TEST(PassageTest, IsOverWhenTheClientHasGotTheLastOfTheStore) {
  Passage passage(kKey);
  ASSERT_TRUE(passage.take(Side::NEAR, "\x01").isOk());
  ASSERT_TRUE(passage.take(Side::FAR, "last").isOk());
  passage.end(Side::FAR);
  EXPECT_FALSE(passage.isOver());
  static_cast<void>(taken(passage, Side::NEAR));
  EXPECT_TRUE(passage.isOver());
}

}  // namespace
}  // namespace unisono::launch
