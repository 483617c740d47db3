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
          .afterRequest = [op, meddle = std::move(meddle)](World& world, const Call& call) {
            if (call.event.op == op && strikes(world)) {
              world.meddle(meddle(call));
            }
          }};
}

/// Some requests of `op` are misunderstood.
Fault forSome(std::string name, Op op, std::function<void(Call*)> change) {
  return {.name = std::move(name),
          .onRequest = [op, change = std::move(change)](World& world, Call* call) {
            if (call->event.op == op && strikes(world)) {
              change(call);
            }
          }};
}

/// Some replies that satisfy `which` are changed by `change`; false keeps them.
Fault onSome(std::string name, std::function<bool(const Call&)> which,
             std::function<bool(std::string*)> change) {
  return {.name = std::move(name),
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
      afterSome("AnArrivalCountsTwice", Op::ARRIVE,
                [](const Call& call) {
                  return RequestWriter().begin(Query::BARRIER).blob(call.event.keys[0]).i64(1);
                }),
      afterSome("AnArrivalIsForgotten", Op::ARRIVE,
                [](const Call& call) {
                  return RequestWriter().begin(Query::ADD).blob(call.event.keys[0]).i64(-1);
                }),
  };
}

bool isStock(const Call& call, Query query) {
  return call.query == query && !call.answered;
}

bool changeLast(std::string* bytes) {
  bytes->back() = static_cast<char>(bytes->back() ^ 1);
  return true;
}

bool changeFirst(std::string* bytes) {
  bytes->front() = static_cast<char>(bytes->front() ^ 1);
  return true;
}

std::vector<Fault> faultsOfStockReplies() {
  return {
      onSome(
          "ABarrierStaysClosed", [](const Call& call) { return call.query == Query::BARRIER; },
          [](std::string*) { return false; }),
      onSome(
          "ACountIsWrong", [](const Call& call) { return call.query == Query::NUM_KEYS; },
          changeFirst),
      onSome(
          "AListIsWrong", [](const Call& call) { return call.query == Query::LIST_KEYS; },
          changeLast),
      onSome(
          "AStockGetFindsNothing", [](const Call& call) { return isStock(call, Query::GET); },
          [](std::string* bytes) {
            bytes->assign(8, '\0');
            return true;
          }),
      onSome(
          "AStockCompareSetIsWrong",
          [](const Call& call) { return isStock(call, Query::COMPARE_SET); }, changeLast),
      onSome(
          "AStockPopTellsAWrongLength",
          [](const Call& call) { return isStock(call, Query::QUEUE_POP); },
          [](std::string* bytes) {
            bytes->front() = static_cast<char>(bytes->front() + (bytes->front() == 0 ? 0 : 1));
            return true;
          }),
  };
}

/// What goes wrong with requests about many keys.
std::vector<Fault> faultsOfMany() {
  return {
      {.name = "ManyKeysAreBegunWithAndForgotten",
       .onWork = [](World& world) { return world.life() % 2 == 1; }},
      forSome("AWaitLooksAtItsFirstKeyOnly", Op::CHECK,
              [](Call* call) { call->event.keys.resize(1); }),
      forSome("ARemovalGoesTooFar", Op::CLEAR, [](Call* call) { call->event.keys = allKeys(); }),
      forSome("ARemovalStopsEarly", Op::CLEAR, [](Call* call) { call->event.keys.resize(1); }),
      afterSome("ARemovalBringsBack", Op::CLEAR,
                [](const Call& call) { return setTo(call.event.keys[0], "7"); }),
  };
}

/// What goes wrong when the server stands still, dies and comes back.
std::vector<Fault> faultsOfLives() {
  return {
      {.name = "APauseLosesWhatArrived",
       .afterPause =
           [](World& world, std::string* bytes) {
             if (strikes(world)) {
               bytes->clear();
             }
           }},
      {.name = "ADeathIsNotTold", .onDeath = [](World& world) { return !strikes(world); }},
      {.name = "AServerBeginsWithAValue",
       .afterRestart = [](World& world) { world.meddle(setTo("/k0", "<kept>")); }},
      {.name = "AServerBeginsWithACount",
       .afterRestart =
           [](World& world) {
             world.meddle(RequestWriter().begin(Query::BARRIER).blob("/b0").i64(1));
           }},
      {.name = "AServerBeginsWithAnElement",
       .afterRestart =
           [](World& world) {
             world.meddle(RequestWriter().begin(Query::QUEUE_PUSH).blob("/q0").blob("<kept>"));
           }},
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
    std::vector<Fault> faults;
    for (const auto& some : {faultsOfTheStore(), faultsOfReplies(), faultsOfStockReplies(),
                             faultsOfMany(), faultsOfLives()}) {
      faults.insert(faults.end(), some.begin(), some.end());
    }
    return faults;
  }();
  return all;
}

}  // namespace unisono::simulation
