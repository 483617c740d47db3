#include "net/handshake.hpp"

#include <utility>

#include "base/check.hpp"

namespace unisono {
namespace {

constexpr std::size_t kNonceSize = 32;
constexpr std::string_view kMagic = "\xA7UNI1";
constexpr char kVersion = 1;
constexpr std::size_t kHeadSize = 9;  // magic, version, flags, two bytes 0

std::string head() {
  std::string bytes(kMagic);
  bytes.push_back(kVersion);
  bytes.append(kHeadSize - bytes.size(), '\0');
  return bytes;
}

bool hasHead(std::string_view frame) noexcept {
  return frame.starts_with(kMagic) && frame.size() >= kHeadSize && frame[kMagic.size()] == kVersion;
}

std::string helloFrame(std::string_view id, std::string_view note) {
  UNISONO_CHECK(id.size() == kHandshakeIdSize, "an id has ", kHandshakeIdSize, " bytes, not ",
                id.size());
  return head().append(id).append(randomBytes(kNonceSize)).append(note);
}

std::string_view text(const Key& key) noexcept {
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

}  // namespace

HandshakeConnector::HandshakeConnector(const Key& key, std::string_view id, std::string_view note)
    : key_(key), hello_(helloFrame(id, note)) {}

std::optional<std::string> HandshakeConnector::prove(std::string_view challenge) const {
  if (challenge.size() != kChallengeSize || !hasHead(challenge)) {
    return std::nullopt;
  }
  const std::string_view said = challenge.substr(0, kHeadSize + kNonceSize);
  if (!isSame(authenticate(key_, {"S", hello_, said}), challenge.substr(said.size()))) {
    return std::nullopt;
  }
  return std::string(text(authenticate(key_, {"C", hello_, challenge})));
}

std::optional<Hello> Hello::parse(std::string_view frame) noexcept {
  if (frame.size() < kHelloSize || !hasHead(frame)) {
    return std::nullopt;
  }
  return Hello{.id = frame.substr(kHeadSize, kHandshakeIdSize), .note = frame.substr(kHelloSize)};
}

HandshakeAcceptor::HandshakeAcceptor(const Key& key, std::string hello)
    : key_(key), hello_(std::move(hello)), challenge_([&] {
        std::string said = head().append(randomBytes(kNonceSize));
        const Key code = authenticate(key_, {"S", hello_, said});
        return said.append(text(code));
      }()) {}

bool HandshakeAcceptor::accepts(std::string_view proof) const {
  return isSame(authenticate(key_, {"C", hello_, challenge_}), proof);
}

}  // namespace unisono
