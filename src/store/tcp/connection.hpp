// Connection: one connection to a store server, as a client uses it.
//
// It sends requests and reads replies, and knows which kind of server is at the
// other end. Which request is sent when, and on which connection, is StoreClient's
// business.
//
// Thread safety: used by one thread at a time; shutdown() may come from any.
//
// Errors: DistNetworkError (STORE_LOST) when the connection is gone, DistStoreError (TIMEOUT)
// when an answer does not come in time. Either leaves it broken(): not to be used again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "unisono/base/error.hpp"
#include "unisono/store/store.hpp"

#include "base/clock.hpp"
#include "base/spin.hpp"
#include "net/socket.hpp"
#include "store/limits.hpp"
#include "store/tcp/codec.hpp"

namespace unisono::tcp {

/// What is known of the server at the other end.
struct ServerTraits {
  bool native = false;       // one of ours: the answered forms may be used
  bool listing = false;      // also that of LIST_KEYS
  StoreLimits limits;        // only those of a single request
  Milliseconds roundTrip{};  // as the kernel measured it while connecting
};

/// One call of a user: what errors say, and when it ends.
struct Call {
  std::string_view op;
  std::span<const std::string> keys;  // wire keys it is about
  Milliseconds timeout;
  TimePoint start;
  Deadline until;     // when what is waited for must have happened
  Deadline deadline;  // when the server must have answered; never nearer than kLeastAnswerTime

  Call(std::string_view name, std::span<const std::string> about, Milliseconds limit);
};

/// A call with a shorter timeout still gives the server this long for one answer: 0 means one
/// check, not none.
constexpr Milliseconds kLeastAnswerTime(500);

class Connection {
 public:
  /// `place` is "10.0.0.1:29500", for messages.
  Connection(Socket socket, std::string place);

  void send(std::string_view bytes, const Call& call);

  std::uint8_t byte(const Call& call);
  std::uint32_t u32(const Call& call);
  std::int64_t i64(const Call& call);
  /// A number of things; a negative one is nonsense.
  std::int64_t count(const Call& call);
  std::string blob(const Call& call);
  /// The same, as who asks the store gets it.
  Bytes value(const Call& call);
  std::string bytes(std::size_t count, const Call& call);

  /// The next byte if it comes by `until`; the connection stays in step either way.
  std::optional<std::uint8_t> byteBy(Deadline until, const Call& call);

  /// Reads the verdict of an answered request; throws what the server says when it REFUSED.
  void verdict(const Call& call);
  /// Reads the rest of a refusal.
  ErrorFacts refusal(const Call& call);

  [[noreturn]] void outOfStep(const Call& call, std::string_view what);
  [[noreturn]] void unanswered(const Call& call);

  /// Wakes the thread inside with STORE_LOST; nothing can be sent or received any more.
  void shutdown() noexcept { socket_.shutdown(); }

  bool broken() const noexcept { return broken_; }

  /// Whether writes were sent that the server has not confirmed.
  bool owesConfirmation() const noexcept { return unacknowledged > 0 || unfenced; }
  /// Whether they can still be confirmed on a broken connection, by what is yet to arrive: of our
  /// own servers, the verdicts; of others, the answer to anything that was sent after them.
  bool canConfirm() const noexcept { return native() ? !derailed_ : !halfSent_ && !derailed_; }
  [[noreturn]] void unconfirmed(const Call& call);
  void markBroken() noexcept { broken_ = true; }
  bool native() const noexcept { return traits.native; }
  const std::string& place() const noexcept { return place_; }
  const Socket& socket() const noexcept { return socket_; }

  ServerTraits traits;
  std::size_t unacknowledged = 0;  // answered writes whose verdict has not been read
  bool unfenced = false;           // stock writes since the last reply

 private:
  /// Sends or receives. An interrupt that ends it halfway leaves the connection broken: nobody
  /// would know what is still to come on it.
  template <typename Move>
  IoResult moving(Move move) {
    broken_ = true;
    const IoResult result = move();
    broken_ = false;
    return result;
  }
  void read(char* data, std::size_t size, const Call& call);
  template <typename Container>
  Container sized(const Call& call);
  void readStraight(char* data, std::size_t size, const Call& call);
  WaitContext waiting(Deadline until, const Call& call) const;
  std::size_t takeReady(char* data, std::size_t size) noexcept;
  bool fill(Deadline until, const Call& call);
  IoResult receive(char* data, std::size_t size, const WaitContext& wait);
  [[noreturn]] void lost(const Call& call, const IoResult& result, std::string_view verb);
  std::string whatMayBeLost() const;

  Socket socket_;
  const std::string place_;
  const std::unique_ptr<char[]> buffer_;  // not cleared: most of it is never used
  std::string_view in_;                   // what is in it and has not been taken yet
  bool broken_ = false;
  bool derailed_ = false;  // what comes next is in the middle of something, or nonsense
  bool halfSent_ = false;  // the last request perhaps was not sent, or not all of it
  Spin spin_;
};

}  // namespace unisono::tcp
