// The server beside a model that does one thing at a time: every answer must be the same.
#include "linear/model.hpp"

#include <fuzzer/FuzzedDataProvider.h>

#include "base/bytes.hpp"
#include "fuzz/check.hpp"
#include "simulation/wire.hpp"
#include "store/tcp/core.hpp"

namespace {

using namespace unisono;
using linear::Op;
using simulation::Call;

constexpr tcp::ConnectionId kId = 1;

/// Those of one request with an answer of its own; what needs several clients, or knows all keys,
/// is the simulation's.
const std::vector<simulation::Kind>& comparableKinds() {
  static const auto* const kinds = [] {
    auto* some = new std::vector<simulation::Kind>(simulation::kinds());
    std::erase_if(*some, [](const simulation::Kind& kind) {
      return kind.then || kind.op == Op::ARRIVE || kind.op == Op::COUNT || kind.op == Op::LIST ||
             (kind.op == Op::LENGTH && kind.waits);
    });
    return some;
  }();
  return *kinds;
}

/// How many keys a call of `kind` names.
std::size_t keysOf(FuzzedDataProvider& data, const simulation::Kind& kind) {
  const bool isList = kind.keys == 2 && kind.op != Op::SET;
  return isList ? data.ConsumeIntegralInRange<std::size_t>(1, 8) : kind.keys;
}

Call plan(FuzzedDataProvider& data) {
  const std::vector<simulation::Kind>& kinds = comparableKinds();
  const auto& kind = kinds[data.ConsumeIntegralInRange<std::size_t>(0, kinds.size() - 1)];
  Call call{.event = {}, .query = kind.query, .answered = kind.answered, .waits = kind.waits};
  call.event.op = kind.op;
  const bool isQueue = kind.op == Op::PUSH || kind.op == Op::POP || kind.op == Op::LENGTH;
  const std::string prefix = isQueue ? "/q" : kind.op == Op::ADD ? "/n" : "/k";
  const std::size_t keys = keysOf(data, kind);
  for (std::size_t i = 0; i < keys; ++i) {
    call.event.keys.push_back(prefix + std::to_string(data.ConsumeIntegralInRange(0, 2)));
  }
  if (kind.op == Op::CLEAR) {
    call.event.keys = {"/k0", "/k1", "/k2"};
  }
  const std::size_t values = simulation::valuesOf(kind.op, kind.keys);
  for (std::size_t i = 0; i < values; ++i) {
    call.event.values.push_back(data.ConsumeRandomLengthString(8));
  }
  call.event.number = kind.op == Op::ADD ? data.ConsumeIntegralInRange(-1000, 1000) : 0;
  return call;
}

/// Asks, and returns what was said when all has been done that can be.
std::string ask(tcp::StoreCore& core, const tcp::RequestWriter& request) {
  core.receive(kId, request.bytes(), TimePoint());
  while (core.work(TimePoint())) {}
  static_cast<void>(core.takeTouched());
  std::string reply(core.unsent(kId));
  core.sent(kId, reply.size(), TimePoint());
  FUZZ_EXPECT(core.closing(kId) == nullptr);
  return reply;
}

/// Makes one call of both, and compares.
void compareOne(tcp::StoreCore& core, linear::State& model, Call call) {
  std::string reply = ask(core, encode(call));
  if (simulation::isSilent(call)) {
    FUZZ_EXPECT(reply.empty());
  } else if (reply.empty()) {  // it waits: then what it asks for is not there
    FUZZ_EXPECT(call.waits);
    FUZZ_EXPECT(ask(core, tcp::RequestWriter().begin(tcp::Query::CANCEL_WAIT)) == "\x01");
    call.event.op = call.event.op == Op::GET ? Op::CHECK : call.event.op;
    call.event.known = true;  // "not all there", "nothing in the queue"
    FUZZ_EXPECT(step(model, call.event));
    return;
  } else {
    ByteReader reader(reply);
    if (call.answered || call.query == tcp::Query::WAIT) {
      FUZZ_EXPECT(reader.number<std::uint8_t>() == std::optional<std::uint8_t>(0));
    }
    FUZZ_EXPECT(decode(reader, call) && reader.rest().empty());
    if (call.query == tcp::Query::WAIT) {
      call.event.result = 1;  // all are there
    }
  }
  call.event.known = true;
  const std::size_t before = model.values.size();
  for (const linear::Event& one : simulation::apart(call.event)) {
    FUZZ_EXPECT(step(model, one));
  }
  if (call.event.op == Op::CLEAR) {
    FUZZ_EXPECT(call.event.result == static_cast<std::int64_t>(before - model.values.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  const StoreLimits limits{.slice = data.ConsumeIntegralInRange<std::size_t>(1, 4),
                           .look = data.ConsumeIntegralInRange<std::size_t>(0, 4)};
  tcp::StoreCore core(limits);
  linear::State model;
  core.open(kId, "fuzzer", TimePoint());
  ask(core, tcp::RequestWriter().begin(tcp::Query::VALIDATE).u32(tcp::kMagic));
  while (data.remaining_bytes() > 0) {
    compareOne(core, model, plan(data));
  }
  return 0;
}
