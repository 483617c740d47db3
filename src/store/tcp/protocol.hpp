// The words of the store's wire protocol; docs/wire/tcp_store.md has every byte.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace unisono::tcp {

/// What a client asks for. 0 to 18 are PyTorch's; DELETE_PREFIX is ours and exists only in the
/// answered form.
enum class Query : std::uint8_t {
  VALIDATE = 0,
  SET = 1,
  COMPARE_SET = 2,
  GET = 3,
  ADD = 4,
  CHECK = 5,
  WAIT = 6,
  NUM_KEYS = 7,
  DELETE_KEY = 8,
  APPEND = 9,
  MULTI_GET = 10,
  MULTI_SET = 11,
  CANCEL_WAIT = 12,
  PING = 13,
  QUEUE_PUSH = 14,
  QUEUE_POP = 15,
  QUEUE_LEN = 16,
  LIST_KEYS = 17,
  BARRIER = 18,
  DELETE_PREFIX = 32,
};

/// Set in the query byte for the answered form of a query: its reply begins with a Verdict,
/// and GET, MULTI_GET and QUEUE_POP wait for what they ask for.
constexpr std::uint8_t kAnswered = 0x80;

/// The first byte of the reply to an answered query. CANCELED is also what CANCEL_WAIT is
/// answered with, so that a canceled wait reads the same in both forms.
enum class Verdict : std::uint8_t { DONE = 0, CANCELED = 1, REFUSED = 2 };

constexpr std::uint32_t kMagic = 0x3C85F7CE;

/// The first byte after the verdict on a COMPARE_SET that stored the value.
constexpr std::uint8_t kStored = 0;

/// Replies to CHECK, WAIT, BARRIER and CANCEL_WAIT.
constexpr std::uint8_t kReady = 0;
constexpr std::uint8_t kNotReady = 1;
constexpr std::uint8_t kStopWaiting = 0;
constexpr std::uint8_t kWaitCanceled = 1;

/// Counts workers as they join; the only key PyTorch uses without a leading "/".
constexpr std::string_view kWorkerCountKey = "init/";

/// A key that only our servers have. Users' keys begin with "/", so nobody can set it.
constexpr std::string_view kCapabilityKey = "unisono/capabilities";
/// Its value: u32 version, u64 feature bits, then four u64 limits in the order of StoreLimits.
constexpr std::uint32_t kCapabilityVersion = 1;
constexpr std::uint64_t kFeatureAnswered = 1;  // all answered forms of version 1, but for
constexpr std::uint64_t kFeatureListing = 2;   // the one of LIST_KEYS

/// Another one, for a stock GET: what the server is doing, as JSON (StoreCore::statsText).
constexpr std::string_view kStatsKey = "unisono/stats";

/// The parts of a request after its query byte.
enum class Field : std::uint8_t {
  END,
  U32,
  I64,
  KEY,    // u64 length, bytes; at most StoreLimits::keyBytes
  VALUE,  // u64 length, bytes; at most StoreLimits::valueBytes
  KEYS,   // u64 count, then that many KEY
  PAIRS,  // u64 count, then that many KEY VALUE
};

/// How a request is laid out, and whether an answered form exists.
struct Shape {
  Query query;
  std::string_view name;
  std::array<Field, 4> fields;  // ends with END
  bool stock;
  bool answered;
};

constexpr std::array<Shape, 20> kShapes = {{
    {Query::VALIDATE, "validate", {Field::U32}, true, false},
    {Query::SET, "set", {Field::KEY, Field::VALUE}, true, true},
    {Query::COMPARE_SET, "compare_set", {Field::KEY, Field::VALUE, Field::VALUE}, true, true},
    {Query::GET, "get", {Field::KEY}, true, true},
    {Query::ADD, "add", {Field::KEY, Field::I64}, true, true},
    {Query::CHECK, "check", {Field::KEYS}, true, false},
    {Query::WAIT, "wait", {Field::KEYS}, true, true},
    {Query::NUM_KEYS, "num_keys", {}, true, false},
    {Query::DELETE_KEY, "delete_key", {Field::KEY}, true, false},
    {Query::APPEND, "append", {Field::KEY, Field::VALUE}, true, true},
    {Query::MULTI_GET, "multi_get", {Field::KEYS}, true, true},
    {Query::MULTI_SET, "multi_set", {Field::PAIRS}, true, true},
    {Query::CANCEL_WAIT, "cancel_wait", {}, true, false},
    {Query::PING, "ping", {Field::U32}, true, false},
    {Query::QUEUE_PUSH, "queue_push", {Field::KEY, Field::VALUE}, true, true},
    {Query::QUEUE_POP, "queue_pop", {Field::KEY}, true, true},
    {Query::QUEUE_LEN, "queue_len", {Field::KEY}, true, false},
    {Query::LIST_KEYS, "list_keys", {}, true, true},
    {Query::BARRIER, "barrier", {Field::KEY, Field::I64}, true, true},
    {Query::DELETE_PREFIX, "delete_prefix", {Field::KEY}, false, true},
}};

/// Where the shape of `query` stands in kShapes, if there is such a query.
constexpr std::size_t shapeIndex(Query query) noexcept {
  return query == Query::DELETE_PREFIX ? kShapes.size() - 1 : static_cast<std::size_t>(query);
}

/// The shape of the request that begins with `byte`, or null when there is none.
constexpr const Shape* shapeOf(std::uint8_t byte) noexcept {
  const bool answered = (byte & kAnswered) != 0;
  const auto query = static_cast<Query>(byte & ~kAnswered);
  const std::size_t index = shapeIndex(query);
  if (index >= kShapes.size() || kShapes[index].query != query) {
    return nullptr;
  }
  const Shape& shape = kShapes[index];
  return (answered ? shape.answered : shape.stock) ? &shape : nullptr;
}

}  // namespace unisono::tcp
