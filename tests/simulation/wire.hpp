// Calls of the simulation as bytes, and replies as answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "linear/history.hpp"
#include "store/tcp/codec.hpp"

namespace unisono::simulation {

/// A call as it goes over the wire.
struct Call {
  linear::Event event;
  tcp::Query query = tcp::Query::PING;
  bool answered = true;
  bool waits = false;
  // Stock clients wait first and ask then: what follows, when the wait has ended.
  std::optional<tcp::Query> then = {};
  std::int64_t timeout = 0;  // microseconds
};

/// What can be called, and how it is asked.
struct Kind {
  linear::Op op;
  tcp::Query query;
  bool answered;
  bool waits;
  std::size_t keys;
  std::optional<tcp::Query> then = {};
};
const std::vector<Kind>& kinds();
/// All keys that are ever set.
const std::vector<std::string>& allKeys();
/// How many values a call of this kind has for so many keys.
std::size_t valuesOf(linear::Op op, std::size_t keys);

/// Whether the request has no reply.
bool isSilent(const Call& call);

tcp::RequestWriter encode(const Call& call);

/// What follows "done", or the whole reply of a stock request; false when it is not complete.
bool decode(ByteReader& reader, Call& call);

/// The same about one key after the other, where it happens to each at a moment of its own.
std::vector<linear::Event> apart(const linear::Event& event);

/// What the answer to a call says, or that it was canceled.
std::vector<linear::Event> facts(const Call& call, bool canceled, std::int64_t end);

}  // namespace unisono::simulation
