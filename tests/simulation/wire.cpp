#include "simulation/wire.hpp"

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
      {Op::GET, Query::GET, true, true, 1},
      {Op::GET, Query::MULTI_GET, true, true, 2},
      {Op::ADD, Query::ADD, true, false, 1},
      {Op::ADD, Query::ADD, false, false, 1},
      {Op::COMPARE_SET, Query::COMPARE_SET, true, false, 1},
      {Op::CHECK, Query::CHECK, false, false, 2},
      {Op::CHECK, Query::WAIT, true, true, 2},
      {Op::CHECK, Query::WAIT, false, true, 1},
      {Op::DELETE, Query::DELETE_KEY, false, false, 1},
      {Op::APPEND, Query::APPEND, true, false, 1},
      {Op::PUSH, Query::QUEUE_PUSH, true, false, 1},
      {Op::PUSH, Query::QUEUE_PUSH, false, false, 1},
      {Op::POP, Query::QUEUE_POP, true, true, 1},
      {Op::LENGTH, Query::QUEUE_LEN, false, false, 1},
  };
  return all;
}

std::size_t valuesOf(Op op, std::size_t keys) {
  return op == Op::SET                        ? keys
         : op == Op::COMPARE_SET              ? 2
         : op == Op::APPEND || op == Op::PUSH ? 1
                                              : 0;
}

bool isSilent(const Call& call) {
  return !call.answered && (call.query == Query::SET || call.query == Query::QUEUE_PUSH);
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
      return request.blob(event.keys[0]).i64(event.number);
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
    case Query::QUEUE_POP:
      return text();
    case Query::MULTI_GET:
      return text() && text();
    case Query::ADD:
    case Query::DELETE_KEY:
    case Query::QUEUE_LEN:
      return number();
    case Query::COMPARE_SET:
      return reader.number<std::uint8_t>() && text();
    case Query::CHECK: {
      const auto value = reader.number<std::uint8_t>();
      event.result = value && *value == tcp::kReady ? 1 : 0;
      return value.has_value();
    }
    case Query::WAIT:
      event.result = 1;
      return true;
    default:
      return true;
  }
}

}  // namespace unisono::simulation
