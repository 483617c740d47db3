#include "simulation/wire.hpp"

#include <algorithm>

namespace unisono::simulation {

using linear::Event;
using linear::Op;
using tcp::Query;
using tcp::RequestWriter;

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {Op::SET, Query::SET, true, false, 1},
      {Op::SET, Query::SET, false, false, 1},
      {Op::SET, Query::MULTI_SET, true, false, 2},
      {Op::SET, Query::MULTI_SET, false, false, 2},
      {Op::GET, Query::GET, true, true, 1},
      {Op::GET, Query::WAIT, false, true, 1, Query::GET},
      {Op::GET, Query::MULTI_GET, true, true, 2},
      {Op::GET, Query::WAIT, false, true, 2, Query::MULTI_GET},
      {Op::ADD, Query::ADD, true, false, 1},
      {Op::ADD, Query::ADD, false, false, 1},
      {Op::COMPARE_SET, Query::COMPARE_SET, true, false, 1},
      {Op::COMPARE_SET, Query::COMPARE_SET, false, false, 1},
      {Op::CHECK, Query::CHECK, false, false, 2},
      {Op::CHECK, Query::WAIT, true, true, 2},
      {Op::CHECK, Query::WAIT, false, true, 1},
      {Op::DELETE, Query::DELETE_KEY, false, false, 1},
      {Op::CLEAR, Query::DELETE_PREFIX, true, false, 1},
      {Op::APPEND, Query::APPEND, true, false, 1},
      {Op::APPEND, Query::APPEND, false, false, 1},
      {Op::PUSH, Query::QUEUE_PUSH, true, false, 1},
      {Op::PUSH, Query::QUEUE_PUSH, false, false, 1},
      {Op::POP, Query::QUEUE_POP, true, true, 1},
      {Op::POP, Query::WAIT, false, true, 1, Query::QUEUE_POP},
      {Op::LENGTH, Query::QUEUE_LEN, false, false, 1},
      {Op::LENGTH, Query::WAIT, false, true, 1},  // and does not pop
      {Op::ARRIVE, Query::BARRIER, true, true, 1},
      {Op::ARRIVE, Query::BARRIER, false, true, 1},
      {Op::COUNT, Query::NUM_KEYS, false, false, 0},
      {Op::LIST, Query::LIST_KEYS, true, false, 0},
      {Op::LIST, Query::LIST_KEYS, false, false, 0},
  };
  return all;
}

const std::vector<std::string>& allKeys() {
  static const std::vector<std::string> all = {"/b0", "/b1", "/b2", "/k0",
                                               "/k1", "/k2", "/n0", "/n1"};
  return all;
}

std::size_t valuesOf(Op op, std::size_t keys) {
  return op == Op::SET                        ? keys
         : op == Op::COMPARE_SET              ? 2
         : op == Op::APPEND || op == Op::PUSH ? 1
                                              : 0;
}

namespace {

/// What all keys begin with, which are in order.
std::string_view prefixOf(const std::vector<std::string>& keys) {
  const std::string& first = keys.front();
  const std::string& last = keys.back();
  const auto end = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  return std::string_view(first).substr(0, static_cast<std::size_t>(end - first.begin()));
}

}  // namespace

bool isSilent(const Call& call) {
  switch (call.query) {
    case Query::SET:
    case Query::MULTI_SET:
    case Query::APPEND:
    case Query::QUEUE_PUSH:
      return !call.answered;
    default:
      return false;
  }
}

RequestWriter encode(const Call& call) {
  const Event& event = call.event;
  RequestWriter request;
  request.begin(call.query, call.answered);
  switch (call.query) {
    case Query::MULTI_GET:
    case Query::CHECK:
    case Query::WAIT:
      return request.keys(event.keys);
    case Query::MULTI_SET:
      request.i64(static_cast<std::int64_t>(event.keys.size()));
      for (std::size_t i = 0; i < event.keys.size(); ++i) {
        request.blob(event.keys[i]).blob(event.values[i]);
      }
      return request;
    case Query::ADD:
    case Query::BARRIER:
      return request.blob(event.keys[0]).i64(event.number);
    case Query::DELETE_PREFIX:
      return request.blob(prefixOf(event.keys));
    case Query::NUM_KEYS:
    case Query::LIST_KEYS:
      return request;
    default:
      break;
  }
  request.blob(event.keys[0]);
  for (const std::string& value : event.values) {
    request.blob(value);
  }
  return request;
}

bool decode(ByteReader& reader, Call& call) {
  Event& event = call.event;
  const auto number = [&] {
    const auto value = reader.number<std::int64_t>();
    event.result = value.value_or(0);
    return value.has_value();
  };
  const auto text = [&] {
    const auto value = reader.blob();
    if (value) {
      event.texts.emplace_back(*value);
    }
    return value.has_value();
  };
  switch (call.query) {
    case Query::GET:
      return text();
    case Query::QUEUE_POP:
      return call.answered ? text() : number() && (event.result == 0 || text());
    case Query::MULTI_GET:
      return std::all_of(event.keys.begin(), event.keys.end(), [&](const auto&) { return text(); });
    case Query::ADD:
    case Query::DELETE_KEY:
    case Query::DELETE_PREFIX:
    case Query::QUEUE_LEN:
    case Query::NUM_KEYS:
      return number();
    case Query::LIST_KEYS: {
      bool complete = number();
      for (std::int64_t i = 0; complete && i < event.result; ++i) {
        complete = text();
      }
      std::sort(event.texts.begin(), event.texts.end());
      return complete;
    }
    case Query::COMPARE_SET:
      return (!call.answered || reader.number<std::uint8_t>()) && text();
    case Query::CHECK: {
      const auto value = reader.number<std::uint8_t>();
      event.result = value && *value == tcp::kReady ? 1 : 0;
      return value.has_value();
    }
    default:
      return true;
  }
}

namespace {

/// The stock GET and MULTI_GET do not wait: a key that is missing reads as empty.
std::vector<Event> factsOfStockGet(const Event& event) {
  if (std::none_of(event.texts.begin(), event.texts.end(),
                   [](const std::string& text) { return text.empty(); })) {
    return {event};
  }
  std::vector<Event> all;
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    Event one = event;
    one.keys = {event.keys[i]};
    one.texts = {event.texts[i]};
    one.op = event.texts[i].empty() ? Op::CHECK : Op::GET;
    all.push_back(one);
  }
  return all;
}

/// A wait that was canceled was not satisfied when it came; one who arrived and gave up is counted.
std::vector<Event> factsOfGivingUp(Event event) {
  if (event.op == Op::POP) {
    event.op = Op::LENGTH;
  } else if (event.op != Op::ARRIVE) {
    event.op = Op::CHECK;
  }
  event.result = 0;
  return {event};
}

}  // namespace

std::vector<Event> apart(const Event& event) {
  if (event.op != Op::CLEAR) {
    return {event};
  }
  constexpr int kOfSomebodyElse = 1000;  // calls of one client would happen in their order
  std::vector<Event> all;
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    Event& one = all.emplace_back(event);
    one.keys = {event.keys[i]};
    one.client += kOfSomebodyElse * static_cast<int>(i + 1);
  }
  return all;
}

std::vector<Event> facts(const Call& call, bool canceled, std::int64_t end) {
  Event event = call.event;
  event.known = true;
  event.end = end;
  if (canceled) {
    return factsOfGivingUp(event);
  }
  switch (event.op) {
    case Op::ARRIVE: {
      Event reached = event;
      reached.op = Op::REACHED;
      return {event, reached};
    }
    case Op::CLEAR:
      return apart(event);
    case Op::COUNT:
      event.number = event.result;
      return {event};
    case Op::CHECK:
      event.result = call.waits ? 1 : event.result;
      return {event};
    case Op::GET:
      if (call.then) {
        event.op = Op::CHECK;
        event.result = 1;
        return {event};
      }
      return call.answered ? std::vector{event} : factsOfStockGet(event);
    case Op::LENGTH:
      return call.waits ? std::vector<Event>() : std::vector{event};
    case Op::POP: {
      if (call.then) {
        return {};  // there is something, or others were faster
      }
      Event length = event;
      length.op = Op::LENGTH;
      return call.answered ? std::vector{event} : std::vector{length, event};
    }
    default:
      return {event};
  }
}

}  // namespace unisono::simulation
