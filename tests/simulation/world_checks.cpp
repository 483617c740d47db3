// What must hold in the simulation.

#include <algorithm>
#include <charconv>

#include "base/str.hpp"
#include "linear/checker.hpp"
#include "simulation/world.hpp"

namespace unisono::simulation {
namespace {

using linear::Event;
using linear::Op;
using tcp::Query;

// A client that was woken for a queue has 100 ms to take something; whether it has is looked at
// every 100 ms. Each of the others may be woken in vain before: it has gone, or has given up, and
// the server does not know yet.
constexpr Micros kTurn = 600 * kMilli;
// There is always an end to what is carried out in slices, since clients think longer than they
// take; but the server may stand still meanwhile, several times.
constexpr Micros kWork = 1'500 * kMilli;

}  // namespace

/// Whether what the call waits for is there.
bool World::isThere(const Call& call) const {
  const std::vector<std::string_view> keys(call.event.keys.begin(), call.event.keys.end());
  if (isQueueOp(call.event.op)) {
    return table().queueLength(keys[0]) > 0;
  }
  if (call.event.op == Op::ARRIVE) {
    const std::string* text = table().find(keys[0]);
    std::int64_t count = 0;
    if (text != nullptr) {
      std::from_chars(text->data(), text->data() + text->size(), count);
    }
    return count >= call.event.number;
  }
  return table().allPresent(keys);
}

/// Nobody may wait for something that is there.
void World::checkWaits() {
  std::map<std::string, std::set<const Client*>> inTurn;
  for (const auto& client : clients_) {
    const auto found = links_.find(client->connection());
    if (found == links_.end() || found->second.client != client.get() || !found->second.open) {
      continue;
    }
    const Link& link = found->second;
    const std::uint64_t said = link.toClient.sent + core_->unsent(found->first).size();
    const Call* call = client->waitingCall(link.toServer.arrived, said);
    const bool isLookedAt = call != nullptr && call->event.keys.size() > limits_.slice &&
                            table().anyWork();  // key by key, which may go on
    if (call == nullptr || isLookedAt || !isThere(*call)) {
      continue;
    }
    if (isQueueOp(call->event.op) && call->query == Query::WAIT) {
      inTurn[call->event.keys[0]].insert(client.get());
    } else {
      violate(str("nobody woke ", linear::describe(call->event)));
    }
  }
  checkTurns(inTurn);
  checkWork();
}

void World::checkWork() {
  if (!table().anyWork()) {
    workSince_.reset();
  } else if (!workSince_) {
    workSince_ = agenda_.now();
  } else if (agenda_.now() - *workSince_ > kWork) {
    violate("the server does not come to an end with requests about many keys");
  }
}

/// Of stock clients that wait for one queue the next is woken when the last has had its time.
void World::checkTurns(const std::map<std::string, std::set<const Client*>>& waiting) {
  std::erase_if(turns_, [&](const auto& turn) { return !waiting.contains(turn.first); });
  for (const auto& [queue, who] : waiting) {
    Turn& turn = turns_[queue];
    if (turn.who != who) {
      turn = {who, agenda_.now()};
    } else if (agenda_.now() - turn.since > kTurn) {
      violate(str(who.size(), " clients wait for ", queue, ", which holds something"));
    }
  }
}

/// What is left in the store, as calls of somebody who looks.
void World::lookAround() {
  const auto look = [&](Op op, std::vector<std::string> keys) -> Event& {
    Event event;
    event.client = settings_.clients;
    event.op = op;
    event.keys = std::move(keys);
    event.known = true;
    event.start = agenda_.now();
    event.end = agenda_.now() + 1;
    return looks_[life_].emplace_back(event);
  };
  for (const std::string& key : allKeys()) {
    const std::string* value = table().find(key);
    Event& event = look(value == nullptr ? Op::CHECK : Op::GET, {key});
    if (value != nullptr) {
      event.texts = {*value};
    }
  }
  for (const std::string key : {"/q0", "/q1"}) {
    look(Op::LENGTH, {key}).result = static_cast<std::int64_t>(table().queueLength(key));
  }
  const std::vector<std::string_view> keys = table().keys();
  look(Op::LIST, allKeys()).texts.assign(keys.begin(), keys.end());
}

void World::checkForgotten() {
  const std::size_t waits = table().waitCount();
  core_->close(kGhost);
  if (core_->connectionCount() != 0 || waits != 0 || core_->unsentBytes() != 0 ||
      core_->partialBytes() != 0) {
    violate(str("the server remembers ", core_->connectionCount(), " connections, ", waits,
                " waits, ", core_->unsentBytes(), " + ", core_->partialBytes(),
                " bytes of those who have gone"));
  }
}

/// Of what was waited for, or deleted, nothing may be left when the last key has gone.
void World::checkCleared() {
  while (core_->work(agenda_.timePoint())) {}
  for (const std::string queue : {"/q0", "/q1"}) {
    while (table().queueLength(queue) > 0) {
      meddle(tcp::RequestWriter().begin(Query::QUEUE_POP).blob(queue));
    }
  }
  meddle(tcp::RequestWriter().begin(Query::DELETE_PREFIX, true).blob("/"));
  while (core_->work(agenda_.timePoint())) {}
  if (table().contentBytes() != 0) {
    violate(str("of nothing, ", table().contentBytes(), " bytes are left"));
  }
}

/// What each of the servers has said, in an order of its own.
void World::checkAnswers() {
  std::map<int, linear::History> histories = looks_;
  for (const auto& client : clients_) {
    for (const auto& [life, mine] : client->histories()) {
      histories[life].insert(histories[life].end(), mine.begin(), mine.end());
      report_.calls += mine.size();
    }
  }
  for (const auto& [life, history] : histories) {
    if (!report_.violation.empty()) {
      return;
    }
    const linear::Verdict verdict = linear::check(history, 200'000);
    if (verdict.kind == linear::Verdict::Kind::WRONG) {
      violate(str("server ", life, ": ", verdict.why));
    }
    report_.undecided += verdict.kind == linear::Verdict::Kind::TOO_LONG ? 1 : 0;
  }
}

}  // namespace unisono::simulation
