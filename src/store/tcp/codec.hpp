// Codec: requests as bytes and back, piece by piece as they arrive.
//
// Nothing here reads a socket. The parser takes whatever has arrived, keeps its
// place in an incomplete request, and never looks at a byte twice to find its end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "store/limits.hpp"
#include "store/tcp/protocol.hpp"

namespace unisono::tcp {

/// One complete request. The views point into the parser and are valid until its next call.
struct Request {
  const Shape* shape = nullptr;
  bool answered = false;
  std::vector<std::string_view> keys;
  std::vector<std::string_view> values;
  std::int64_t number = 0;  // delta, world size, nonce or magic

  Query query() const noexcept { return shape->query; }
  std::string_view key() const { return keys.front(); }
};

/// Finds the end of a request of which more and more bytes arrive.
class RequestScanner {
 public:
  explicit RequestScanner(const StoreLimits& limits) : limits_(limits) {}

  /// Looks at `bytes`, the request from its first byte as far as it has arrived. Ok with
  /// done() when it is complete; ok without when at least needed() bytes must be there before
  /// looking again makes sense; a failure (PROTOCOL, LIMIT) when it can never be complete.
  Status scan(std::string_view bytes);

  bool done() const noexcept { return done_; }
  std::size_t size() const noexcept { return position_; }
  std::size_t needed() const noexcept { return needed_; }
  const Shape* shape() const noexcept { return shape_; }
  bool answered() const noexcept { return answered_; }
  void reset() noexcept;

 private:
  Status begin(std::uint8_t byte);
  Status scanField(std::string_view bytes, Field field);
  Status scanItems(std::string_view bytes, bool pairs);
  Status scanBlob(std::string_view bytes, Field field);
  Status scanCount(std::string_view bytes, std::uint64_t itemsEach);
  bool have(std::string_view bytes, std::uint64_t more);

  const StoreLimits& limits_;
  const Shape* shape_ = nullptr;
  bool answered_ = false;
  bool done_ = false;
  bool advanced_ = false;  // the field under the position is complete
  bool counted_ = false;   // the count of KEYS or PAIRS has been read
  std::size_t field_ = 0;
  std::uint64_t itemsLeft_ = 0;
  std::size_t position_ = 0;
  std::size_t needed_ = 1;
};

/// Turns the bytes of one connection into requests.
class RequestParser {
 public:
  explicit RequestParser(const StoreLimits& limits) : limits_(limits), scanner_(limits) {}

  enum class Step : std::uint8_t { REQUEST, NEED_MORE, BAD };

  /// Takes bytes from the front of `*chunk` until a request is complete (REQUEST, in
  /// `*request`) or the chunk is used up (NEED_MORE). After BAD, failure() says why and the
  /// parser is not to be used any more.
  Step next(std::string_view* chunk, Request* request);

  const Status& failure() const noexcept { return failure_; }

  /// Bytes kept of an incomplete request.
  std::size_t partialBytes() const noexcept { return partial_.size(); }
  bool idle() const noexcept { return partial_.empty(); }
  /// Frees what is kept; the parser is not to be used any more.
  void discard() noexcept;
  /// Whether the request that is arriving (or was BAD) wants an answer, so that it can be told.
  bool wantsAnswer() const noexcept { return scanner_.answered(); }

 private:
  Step nextInPieces(std::string_view* chunk, Request* request);
  Step scanned(std::string_view bytes);

  const StoreLimits& limits_;
  RequestScanner scanner_;
  std::string partial_;  // an incomplete request, from its first byte
  std::string current_;  // the request last returned, when it came in pieces
  Status failure_;
};

/// Splits the request at the front of `bytes` into its parts and returns its size; 0 when it is
/// incomplete or one that a RequestScanner refuses, which can say more about it.
std::size_t decodeRequest(std::string_view bytes, const StoreLimits& limits, Request* request);

/// Builds requests; several may be put together and sent in one piece.
class RequestWriter {
 public:
  /// Begins a request; the fields follow in the order of its shape.
  RequestWriter& begin(Query query, bool answered = false);
  RequestWriter& u32(std::uint32_t value);
  RequestWriter& i64(std::int64_t value);
  RequestWriter& blob(std::string_view bytes);
  RequestWriter& keys(std::span<const std::string> keys);

  const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace unisono::tcp
