#include "simulation/faults.hpp"

#include "simulation/world.hpp"

namespace unisono::simulation {
namespace {

using linear::Op;
using tcp::Query;
using tcp::RequestWriter;

bool strikes(World& world) {
  return world.below(8) == 0;
}

RequestWriter setTo(const std::string& key, std::string_view value) {
  return RequestWriter().begin(Query::SET).blob(key).blob(value);
}

/// After some requests of `op`, `meddle` does something to the store.
Fault afterSome(std::string name, Op op, std::function<RequestWriter(const Call&)> meddle) {
  return {.name = std::move(name),
          .afterRequest =
              [op, meddle = std::move(meddle)](World& world, const Call& call) {
                if (call.event.op == op && strikes(world)) {
                  world.meddle(meddle(call));
                }
              },
          .onReply = {}};
}

/// Some replies that satisfy `which` are changed by `change`; false keeps them.
Fault onSome(std::string name, std::function<bool(const Call&)> which,
             std::function<bool(std::string*)> change) {
  return {.name = std::move(name),
          .afterRequest = {},
          .onReply = [which = std::move(which), change = std::move(change)](
                         World& world, const Call& call, std::string* bytes) {
            return !which(call) || !strikes(world) || change(bytes);
          }};
}

bool any(const Call&) {
  return true;
}

std::vector<Fault> faultsOfTheStore() {
  return {
      afterSome("SetIsLost", Op::SET,
                [](const Call& call) {
                  return RequestWriter().begin(Query::DELETE_KEY).blob(call.event.keys[0]);
                }),
      afterSome("SetIsFollowedByAnOldValue", Op::SET,
                [](const Call& call) { return setTo(call.event.keys.back(), "<old>"); }),
      afterSome("AddIsDoneTwice", Op::ADD,
                [](const Call& call) {
                  return RequestWriter().begin(Query::ADD).blob(call.event.keys[0]).i64(1);
                }),
      afterSome("CompareSetAlwaysSets", Op::COMPARE_SET,
                [](const Call& call) { return setTo(call.event.keys[0], call.event.values[1]); }),
      afterSome("DeleteBringsBack", Op::DELETE,
                [](const Call& call) { return setTo(call.event.keys[0], "<back>"); }),
      afterSome("AppendOverwrites", Op::APPEND,
                [](const Call& call) { return setTo(call.event.keys[0], call.event.values[0]); }),
      afterSome("PushIsDoneTwice", Op::PUSH,
                [](const Call& call) {
                  return RequestWriter()
                      .begin(Query::QUEUE_PUSH)
                      .blob(call.event.keys[0])
                      .blob(call.event.values[0]);
                }),
      afterSome("PushLosesAnElement", Op::PUSH,
                [](const Call& call) {
                  return RequestWriter().begin(Query::QUEUE_POP).blob(call.event.keys[0]);
                }),
      afterSome("AWaitIsLeftBehind", Op::LENGTH,
                [](const Call&) {
                  const std::vector<std::string> keys = {"/never"};
                  return RequestWriter().begin(Query::WAIT).keys(keys);
                }),
  };
}

std::vector<Fault> faultsOfReplies() {
  return {
      onSome(
          "AWakeUpIsLost", [](const Call& call) { return call.waits; },
          [](std::string*) { return false; }),
      onSome("AReplyIsLost", any, [](std::string*) { return false; }),
      onSome("AReplyComesTwice", any,
             [](std::string* bytes) {
               *bytes += *bytes;
               return true;
             }),
      onSome(
          "ASumIsWrong",
          [](const Call& call) { return call.event.op == Op::ADD && !call.answered; },
          [](std::string* bytes) {
            ++bytes->front();
            return true;
          }),
      onSome(
          "AValueIsWrong", [](const Call& call) { return call.event.op == Op::GET; },
          [](std::string* bytes) {
            bytes->back() = bytes->back() == '>' ? '?' : bytes->back();
            return true;
          }),
      onSome(
          "ACheckIsWrong", [](const Call& call) { return call.query == Query::CHECK; },
          [](std::string* bytes) {
            bytes->front() = bytes->front() == 0 ? '\1' : '\0';
            return true;
          }),
  };
}

}  // namespace

const std::vector<Fault>& plantedFaults() {
  static const std::vector<Fault> all = [] {
    std::vector<Fault> faults = faultsOfTheStore();
    const std::vector<Fault> more = faultsOfReplies();
    faults.insert(faults.end(), more.begin(), more.end());
    return faults;
  }();
  return all;
}

}  // namespace unisono::simulation
