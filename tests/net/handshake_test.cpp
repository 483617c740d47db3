#include "net/handshake.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::ScopedEnv;
using test::TempDir;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::string_view kId = "0123456789abcdef";
constexpr std::string_view kNote = "for whom";

std::string hex(const Key& key) {
  std::string text;
  for (const std::uint8_t byte : key) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return text;
}

Key keyOf(std::string_view secret) {
  return deriveKey(secret, "test");
}

TEST(SecretTest, AuthenticatesAsHmacSha256Does) {
  // RFC 4231, test case 1, with its key of 20 bytes padded to the length of ours as HMAC does.
  Key key{};
  std::fill_n(key.begin(), 20, std::uint8_t{0x0b});
  EXPECT_EQ(hex(authenticate(key, {"Hi ", "There"})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST(SecretTest, EveryPurposeHasAKeyOfItsOwn) {
  EXPECT_EQ(deriveKey("a secret of some length", "store"),
            deriveKey("a secret of some length", "store"));
  EXPECT_NE(deriveKey("a secret of some length", "store"),
            deriveKey("a secret of some length", "mesh"));
  EXPECT_NE(deriveKey("a secret of some length", "store"),
            deriveKey("another secret of that length", "store"));
}

TEST(SecretTest, ComesFromAFileThatOnlyItsOwnerReads) {
  const TempDir folder;
  const std::string path = folder.file("secret");
  std::ofstream(path) << "0123456789abcdef\n";
  const ScopedEnv file("UNISONO_AUTH_SECRET_FILE", path);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(jobSecret(), "0123456789abcdef");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_THAT(textOf<UsageError>([] { static_cast<void>(jobSecret()); }),
              AllOf(HasSubstr("open to others"), HasSubstr("chmod 600"), HasSubstr("CONFIG")));
}

TEST(SecretTest, IsRefusedWhenItCannotBeReadOrIsShort) {
  {
    const ScopedEnv file("UNISONO_AUTH_SECRET_FILE", "/does/not/exist");
    EXPECT_THAT(textOf<UsageError>([] { static_cast<void>(jobSecret()); }), HasSubstr("ENOENT"));
  }
  {
    const ScopedEnv file("UNISONO_AUTH_SECRET_FILE", "/");
    EXPECT_THAT(textOf<UsageError>([] { static_cast<void>(jobSecret()); }),
                HasSubstr("no plain file"));
  }
  const ScopedEnv secret("UNISONO_AUTH_SECRET", "short");
  EXPECT_THAT(textOf<UsageError>([] { static_cast<void>(jobSecret()); }),
              AllOf(HasSubstr("5 bytes"), HasSubstr("16")));
}

TEST(HandshakeTest, BothWhoKnowTheKeyAreConvinced) {
  const HandshakeConnector connector(keyOf("k"), kId, kNote);
  ASSERT_EQ(connector.hello().size(), kHelloSize + kNote.size());
  EXPECT_EQ(connector.hello()[0], kHelloByte);
  const auto hello = Hello::parse(connector.hello());
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->id, kId);
  EXPECT_EQ(hello->note, kNote);
  const HandshakeAcceptor acceptor(keyOf("k"), connector.hello());
  EXPECT_EQ(acceptor.challenge().size(), kChallengeSize);
  const auto proof = connector.prove(acceptor.challenge());
  ASSERT_TRUE(proof);
  EXPECT_EQ(proof->size(), kProofSize);
  EXPECT_TRUE(acceptor.accepts(*proof));
}

TEST(HandshakeTest, NeitherIsConvincedByAnotherKey) {
  const HandshakeConnector connector(keyOf("k"), kId, kNote);
  const HandshakeAcceptor stranger(keyOf("l"), connector.hello());
  EXPECT_FALSE(connector.prove(stranger.challenge()));
  // Nor is an acceptor by somebody who does not care who accepts.
  const HandshakeAcceptor acceptor(keyOf("k"), connector.hello());
  EXPECT_FALSE(acceptor.accepts(std::string(kProofSize, 'x')));
  EXPECT_FALSE(acceptor.accepts(acceptor.challenge().substr(kChallengeSize - kProofSize)));
  EXPECT_FALSE(acceptor.accepts(""));
}

TEST(HandshakeTest, WhatWasOverheardIsOfNoUseLater) {
  const HandshakeConnector connector(keyOf("k"), kId, kNote);
  const HandshakeAcceptor first(keyOf("k"), connector.hello());
  const std::string proof = connector.prove(first.challenge()).value();
  const HandshakeAcceptor second(keyOf("k"), connector.hello());  // a replay of the hello
  EXPECT_FALSE(second.accepts(proof));
  const HandshakeConnector later(keyOf("k"), kId, kNote);
  EXPECT_FALSE(later.prove(first.challenge()));
}

TEST(HandshakeTest, EveryByteCounts) {
  const HandshakeConnector connector(keyOf("k"), kId, kNote);
  const HandshakeAcceptor acceptor(keyOf("k"), connector.hello());
  for (std::size_t i = 0; i < kChallengeSize; ++i) {
    std::string changed = acceptor.challenge();
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(connector.prove(changed)) << "byte " << i;
    EXPECT_FALSE(connector.prove(acceptor.challenge().substr(0, i))) << i << " bytes";
  }
  const std::string proof = connector.prove(acceptor.challenge()).value();
  for (std::size_t i = 0; i < connector.hello().size(); ++i) {
    std::string changed = connector.hello();
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(HandshakeAcceptor(keyOf("k"), changed).accepts(proof)) << "byte " << i;
    EXPECT_FALSE(i < kHelloSize && Hello::parse(connector.hello().substr(0, i))) << i << " bytes";
  }
}

}  // namespace
}  // namespace unisono
