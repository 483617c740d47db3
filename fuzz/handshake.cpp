// The first bytes of connections to a server that has a secret: in any pieces, right, nearly right
// or nonsense. Whoever has not proved that it knows the key hears nothing but a challenge; whoever
// has is served.
#include <array>
#include <fuzzer/FuzzedDataProvider.h>
#include <memory>

#include "fuzz/check.hpp"
#include "store/tcp/core.hpp"

namespace {

using namespace unisono;
using tcp::ConnectionId;

constexpr std::size_t kClients = 3;

/// One connection: all that was said on it.
struct Client {
  bool open = false;
  std::string said;
  std::string heard;
  std::unique_ptr<HandshakeConnector> connector;
};

StoreLimits smallLimits() {
  StoreLimits limits;
  limits.unvalidated = kClients - 1;
  return limits;
}

class Feeder {
 public:
  explicit Feeder(FuzzedDataProvider& data)
      : data_(data), key_(deriveKey("right", "store")), core_(smallLimits(), {}, key_) {}

  void run() {
    while (data_.remaining_bytes() > 0) {
      const auto at = data_.ConsumeIntegralInRange<std::size_t>(0, kClients - 1);
      switch (data_.ConsumeIntegralInRange(0, 8)) {
        case 0:
          close(at);
          break;
        case 1:
          now_ += std::chrono::milliseconds(data_.ConsumeIntegralInRange(0, 3000));
          core_.tick(now_);
          break;
        case 2:
        case 3:
          greet(at);
          break;
        case 4:
        case 5:
          prove(at);
          break;
        case 6:
          feed(at, tcp::RequestWriter().begin(tcp::Query::PING).u32(0x01020304).bytes());
          break;
        default:
          feed(at, data_.ConsumeRandomLengthString(200));
          break;
      }
      flush();
    }
    for (std::size_t at = 0; at < kClients; ++at) {
      close(at);
    }
    FUZZ_EXPECT(core_.connectionCount() == 0);
    FUZZ_EXPECT(core_.unsentBytes() == 0 && core_.partialBytes() == 0);
  }

 private:
  void greet(std::size_t at) {
    const Key key = data_.ConsumeBool() ? deriveKey("wrong", "store") : key_;
    clients_[at].connector =
        std::make_unique<HandshakeConnector>(key, std::string(kHandshakeIdSize, '\0'), "");
    feed(at, changed(clients_[at].connector->hello()));
  }

  void prove(std::size_t at) {
    const Client& client = clients_[at];
    const std::string challenge = client.heard.substr(0, kChallengeSize);
    const auto proof = client.connector ? client.connector->prove(challenge) : std::nullopt;
    feed(at, changed(proof.value_or(std::string(kProofSize, 'x'))));
  }

  /// Perhaps with a byte that is another, or without its end.
  std::string changed(std::string bytes) {
    if (!data_.ConsumeBool()) {
      return bytes;
    }
    bytes[data_.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1)] =
        data_.ConsumeIntegral<char>();
    return bytes.substr(0, data_.ConsumeIntegralInRange<std::size_t>(0, bytes.size()));
  }

  void feed(std::size_t at, std::string bytes) {
    Client& client = clients_[at];
    if (!client.open) {
      core_.open(at, "fuzzer", now_);
      client.open = true;
    }
    while (!bytes.empty()) {
      const auto count = data_.ConsumeBool()
                             ? data_.ConsumeIntegralInRange<std::size_t>(1, bytes.size())
                             : bytes.size();
      core_.receive(at, bytes.substr(0, count), now_);
      client.said += bytes.substr(0, count);
      bytes.erase(0, count);
    }
  }

  /// Whether what was said begins with a greeting and the proof that was asked for.
  bool hasProved(const Client& client) const {
    const std::string_view said = client.said;
    if (said.size() < kHelloSize + kProofSize || client.heard.size() < kChallengeSize) {
      return false;
    }
    const std::string_view challenge = std::string_view(client.heard).substr(0, kChallengeSize);
    return isSame(authenticate(key_, {"C", said.substr(0, kHelloSize), challenge}),
                  said.substr(kHelloSize, kProofSize));
  }

  void flush() {
    for (const ConnectionId id : core_.takeTouched()) {
      const std::string_view bytes = core_.unsent(id);
      Client& client = clients_.at(id);
      client.heard += bytes;
      core_.sent(id, bytes.size(), now_);
      if (core_.closing(id) != nullptr) {
        check(client);
        close(id);
      }
    }
    for (const Client& client : clients_) {
      check(client);
    }
  }

  void check(const Client& client) const {
    const bool proved = hasProved(client);
    FUZZ_EXPECT(client.heard.empty() || client.heard.size() >= kChallengeSize);
    FUZZ_EXPECT(proved || client.heard.size() <= kChallengeSize);
    FUZZ_EXPECT(!proved || !client.open ||
                (client.heard.size() > kChallengeSize && client.heard[kChallengeSize] == kWelcome));
  }

  void close(std::size_t at) {
    if (clients_[at].open) {
      core_.close(at);
      clients_[at] = {};
    }
  }

  FuzzedDataProvider& data_;
  const Key key_;
  tcp::StoreCore core_;
  TimePoint now_{};
  std::array<Client, kClients> clients_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  Feeder(data).run();
  return 0;
}
