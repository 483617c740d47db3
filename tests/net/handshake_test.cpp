#include "net/handshake.hpp"

#include <array>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/forked.hpp"
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
  EXPECT_EQ(jobSecret()->view(), "0123456789abcdef");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_THAT(textOf<UsageError>([] { static_cast<void>(jobSecret()); }),
              AllOf(HasSubstr("open to others"), HasSubstr("chmod 600"), HasSubstr("CONFIG")));
}

/// What the kernel says of the mapping that `address` is in: "rd wr mr mw me ac dd".
std::string flagsOf(const char* address) {
  std::ifstream maps("/proc/self/smaps");
  bool isThere = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      isThere = begin <= at && at < end;
    } else if (isThere && line.starts_with("VmFlags:")) {
      return line;
    }
  }
  return "";
}

TEST(SecretTest, IsInNoCoreFile) {
  const Secret secret({"known to ", "nobody"});
  EXPECT_EQ(secret.view(), "known to nobody");
  EXPECT_THAT(flagsOf(secret.view().data()), HasSubstr(" dd"));
}

TEST(SecretTest, IsWipedWhereItIsNotNeeded) {
  Secret secret({"known to nobody"});
  const std::string_view all = secret.view();
  secret.shrink(5);
  EXPECT_EQ(secret.view(), "known");
  EXPECT_EQ(all, std::string("known").append(all.size() - 5, '\0'));
}

/// How often `text` is in the memory of process `pid`.
std::size_t countIn(pid_t pid, const std::string& text) {
  std::ifstream maps(str("/proc/", pid, "/maps"));
  std::ifstream memory(str("/proc/", pid, "/mem"), std::ios::binary);
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char readable = '-';
    constexpr std::uintptr_t kReserved = 1UL << 30U;  // what sanitizers map and hardly use
    if (std::sscanf(line.c_str(), "%lx-%lx %c", &begin, &end, &readable) != 3 || readable != 'r' ||
        end - begin > kReserved) {
      continue;
    }
    std::string bytes(end - begin, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(begin));
    memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    for (std::size_t at = bytes.find(text); at != std::string::npos;
         at = bytes.find(text, at + 1)) {
      ++count;
    }
  }
  return count;
}

TEST(SecretTest, IsNowhereInAProcessThatHasMadeItsKeys) {
  const TempDir folder;
  const std::string path = folder.file("secret");
  // Not by this process, whose memory the other one begins with.
  ASSERT_EQ(std::system(str("umask 077; head -c 30 /dev/urandom | base64 > ", path).c_str()), 0);
  const ScopedEnv file("UNISONO_AUTH_SECRET_FILE", path);
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  std::string kept = "a word that stays";
  const test::Forked other([&] {
    std::optional<Secret> secret = jobSecret();
    const HandshakeConnector connector(deriveKey(Secret({secret->view(), kId}).view(), "mesh"), kId,
                                       kNote);
    const HandshakeAcceptor acceptor(deriveKey(secret->view(), "store"), connector.hello());
    secret.reset();
    kept += " in the other";
    ASSERT_EQ(::write(ready[1], "!", 1), 1);
    ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  std::string text;
  std::ifstream(path) >> text;
  ASSERT_EQ(text.size(), 40U);
  EXPECT_EQ(countIn(other.pid(), text), 0U);
  EXPECT_EQ(countIn(other.pid(), text.substr(20)), 0U);
  EXPECT_GT(countIn(other.pid(), "a word that stays in the other"), 0U) << "what is there is found";
  for (const int fd : ready) {
    ::close(fd);
  }
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
