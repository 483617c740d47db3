#include "simulation/world.hpp"

#include <algorithm>
#include <array>

#include "base/str.hpp"

namespace unisono::simulation {
namespace {

using tcp::ConnectionId;
using tcp::Query;

constexpr Micros kTick = 100 * kMilli;
constexpr Micros kLongest = 600'000 * kMilli;

/// In which slices requests about many keys are carried out, and how many keys are looked at first.
StoreLimits limitsFor(SeededRng& rng) {
  constexpr std::array<std::size_t, 3> kSlices = {1, 2, 64};
  constexpr std::array<std::size_t, 3> kLooks = {0, 4, 4096};
  StoreLimits limits;
  limits.slice = kSlices[rng.next() % kSlices.size()];
  limits.look = kLooks[rng.next() % kLooks.size()];
  return limits;
}

}  // namespace

World::World(const Settings& settings)
    : settings_(settings),
      rng_(settings.seed),
      clientsCrash_(below(4) != 0),
      limits_(limitsFor(rng_)),
      core_(std::make_unique<tcp::StoreCore>(limits_)) {
  for (int i = 0; i < settings.clients; ++i) {
    clients_.push_back(std::make_unique<Client>(*this, i, settings.callsEach));
  }
}

void World::violate(const std::string& what) {
  if (report_.violation.empty()) {
    report_.violation = str("seed ", settings_.seed, " at ", agenda_.now(), " us: ", what);
  }
}

void World::trace(std::string_view what) {
  report_.trace = (report_.trace ^ std::hash<std::string_view>{}(what) ^
                   static_cast<std::uint64_t>(agenda_.now())) *
                  0x9e3779b97f4a7c15U;
}

/// Mostly short, sometimes long: that is what makes clients overtake each other.
Micros World::delay() {
  return static_cast<Micros>(below(10) == 0 ? below(40'000) : below(400));
}

std::optional<ConnectionId> World::connect(Client& client) {
  if (!isUp_) {
    return std::nullopt;
  }
  const ConnectionId id = ++lastId_;
  links_[id].client = &client;
  core_->open(id, str("client:", id), agenda_.timePoint());
  return id;
}

/// Cuts `bytes` into pieces of any size that arrive in order.
void World::dispatch(Way& way, std::string_view bytes, std::function<void(std::string)> arrive) {
  way.sent += bytes.size();
  while (!bytes.empty()) {
    const std::size_t most = below(3) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 12);
    const std::size_t size = 1 + below(most);
    way.lastArrival = std::max(way.lastArrival, agenda_.now() + delay());
    agenda_.at(way.lastArrival,
               [piece = std::string(bytes.substr(0, size)), arrive] { arrive(piece); });
    bytes.remove_prefix(size);
  }
}

void World::send(ConnectionId id, std::string_view bytes) {
  const auto found = links_.find(id);
  if (found != links_.end()) {  // otherwise the server has died, and the client does not know yet
    dispatch(found->second.toServer, bytes,
             [this, id](const std::string& piece) { arriveAtServer(id, piece); });
  }
}

void World::arriveAtServer(ConnectionId id, const std::string& piece) {
  const auto found = links_.find(id);
  if (found == links_.end() || !found->second.open) {
    return;
  }
  found->second.inbox += piece;
  serve(id);
}

/// Lets the server take what has arrived, unless it stands still.
void World::serve(ConnectionId id) {
  const auto found = links_.find(id);
  if (found == links_.end() || !found->second.open || agenda_.now() < pausedUntil_ ||
      found->second.inbox.empty()) {
    return;
  }
  Link& link = found->second;
  const std::string bytes = std::exchange(link.inbox, {});
  link.toServer.arrived += bytes.size();
  trace(bytes);
  core_->receive(id, bytes, agenda_.timePoint());
  const Call* call = link.client == nullptr ? nullptr : link.client->currentCall();
  if (settings_.fault != nullptr && settings_.fault->afterRequest && call != nullptr &&
      link.toServer.arrived == link.client->requestEnd()) {
    settings_.fault->afterRequest(*this, *call);
  }
  pump();
  checkWaits();
}

bool World::beginsInSlices(const Call& call) const {
  return call.event.keys.size() > std::max(limits_.slice, limits_.look);
}

Call World::understood(Call call) {
  if (settings_.fault != nullptr && settings_.fault->onRequest) {
    settings_.fault->onRequest(*this, &call);
  }
  return call;
}

/// Sends what the core has to say; sometimes only a part of it at a time.
void World::pump() {
  for (const ConnectionId id : core_->takeTouched()) {
    flush(id);
  }
  planWork();
}

/// What is carried out in slices goes on a little later; sometimes much, as in a server that has
/// others to serve first.
void World::planWork() {
  if (!workPlanned_ && core_->table().anyWork()) {
    workPlanned_ = true;
    const std::uint64_t most = below(4) == 0 ? 10'000 : 300;
    agenda_.after(static_cast<Micros>(below(most)), [this] { work(); });
  }
}

void World::work() {
  workPlanned_ = false;
  const bool forgets =
      settings_.fault != nullptr && settings_.fault->onWork && !settings_.fault->onWork(*this);
  if (agenda_.now() < pausedUntil_ || forgets) {
    return;
  }
  ++report_.slices;
  core_->work(agenda_.timePoint());
  pump();
  checkWaits();
}

void World::flush(ConnectionId id) {
  const auto found = links_.find(id);
  const std::string_view unsent = core_->unsent(id);
  if (id == kGhost) {
    core_->sent(id, unsent.size(), agenda_.timePoint());
    return;
  }
  if (found == links_.end()) {
    return;
  }
  Link& link = found->second;
  if (!unsent.empty()) {
    const std::size_t count = below(4) == 0 ? 1 + below(unsent.size()) : unsent.size();
    std::string bytes(unsent.substr(0, count));
    core_->sent(id, count, agenda_.timePoint());
    const Call* call = link.client == nullptr ? nullptr : link.client->currentCall();
    const bool tampered = settings_.fault != nullptr && settings_.fault->onReply && call != nullptr;
    if (!tampered || settings_.fault->onReply(*this, *call, &bytes)) {
      dispatch(link.toClient, bytes, [this, id](const std::string& piece) {
        const auto there = links_.find(id);
        if (there != links_.end() && there->second.client != nullptr) {
          trace(piece);
          there->second.client->receive(piece);
        }
      });
    }
    if (!core_->unsent(id).empty()) {
      agenda_.after(1 + static_cast<Micros>(below(2'000)), [this, id] { flush(id); });
      return;
    }
  }
  if (core_->closing(id) != nullptr) {
    closeAtServer(id);
  }
}

void World::hangUp(ConnectionId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return;
  }
  Link& link = found->second;
  link.client = nullptr;
  ++report_.cuts;
  if (below(2) == 0) {  // what is under way is lost
    link.open = false;
    closeAtServer(id);
    return;
  }
  agenda_.at(std::max(link.toServer.lastArrival, pausedUntil_) + delay(),
             [this, id] { closeAtServer(id); });
}

void World::closeAtServer(ConnectionId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return;
  }
  Client* client = found->second.client;
  links_.erase(found);
  core_->close(id);
  if (client != nullptr) {
    client->disconnected();
  }
  pump();
  checkWaits();
}

void World::disturb() {
  const std::uint64_t kind = below(60);
  if (kind < 10) {
    pause();
  } else if (kind < 30 && clientsCrash_) {
    clients_[below(clients_.size())]->crash();
  } else if (kind == 30) {
    die();
  }
  agenda_.after(static_cast<Micros>(below(60)) * kMilli, [this] { disturb(); });
}

std::vector<ConnectionId> World::connections() const {
  std::vector<ConnectionId> all;
  std::transform(links_.begin(), links_.end(), std::back_inserter(all),
                 [](const auto& link) { return link.first; });
  return all;
}

void World::pause() {
  ++report_.pauses;
  pausedUntil_ = agenda_.now() + static_cast<Micros>(below(300)) * kMilli;
  agenda_.at(pausedUntil_, [this] { goOn(); });
}

void World::goOn() {
  if (agenda_.now() < pausedUntil_) {
    return;  // it was stopped again
  }
  turns_.clear();
  planWork();
  for (const ConnectionId id : connections()) {
    const auto found = links_.find(id);
    if (found != links_.end() && settings_.fault != nullptr && settings_.fault->afterPause) {
      settings_.fault->afterPause(*this, &found->second.inbox);
    }
    serve(id);
  }
}

/// The server is gone, with all it knew. Some of what it said last still arrives, or nothing; then
/// its clients see that their connections have ended.
void World::die() {
  if (!isUp_) {
    return;
  }
  ++report_.deaths;
  lookAround();
  core_ = std::make_unique<tcp::StoreCore>(limits_);
  isUp_ = false;
  pausedUntil_ = 0;
  workSince_.reset();
  turns_.clear();
  for (const ConnectionId id : connections()) {
    Link& link = links_.at(id);
    link.open = false;
    Client* client = link.client;
    const bool isTold =
        settings_.fault == nullptr || !settings_.fault->onDeath || settings_.fault->onDeath(*this);
    const Micros when = std::max(agenda_.now(), link.toClient.lastArrival) + delay();
    if (client == nullptr || below(2) == 0) {
      links_.erase(id);
    }
    if (client != nullptr && isTold) {
      agenda_.at(when, [this, id, client] {
        if (client->connection() == id) {
          links_.erase(id);
          client->serverDied();
        }
      });
    }
  }
  agenda_.after(static_cast<Micros>(below(200)) * kMilli, [this] { restart(); });
}

void World::restart() {
  isUp_ = true;
  ++life_;
  if (settings_.fault != nullptr && settings_.fault->afterRestart) {
    settings_.fault->afterRestart(*this);
  }
}

void World::meddle(const tcp::RequestWriter& request) {
  const TimePoint now = agenda_.timePoint();
  if (core_->peer(kGhost).empty()) {
    core_->open(kGhost, "ghost", now);
    core_->receive(kGhost, tcp::RequestWriter().begin(Query::VALIDATE).u32(tcp::kMagic).bytes(),
                   now);
  }
  core_->receive(kGhost, request.bytes(), now);
}

Report World::run() {
  std::function<void()> tick = [&] {
    if (isUp_ && agenda_.now() >= pausedUntil_) {
      core_->tick(agenda_.timePoint());
      pump();
      checkWaits();
    }
    agenda_.after(kTick, tick);
  };
  agenda_.after(kTick, tick);
  agenda_.after(10 * kMilli, [this] { disturb(); });
  for (const auto& client : clients_) {
    client->start();
  }
  const auto allDone = [&] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return client->finished(); });
  };
  while (report_.violation.empty() && !(isUp_ && allDone() && links_.empty())) {
    if (!agenda_.next(kLongest)) {
      violate("some have not come to their end");
    }
  }
  if (report_.violation.empty()) {
    checkForgotten();
    lookAround();
    checkCleared();
  }
  checkAnswers();
  return report_;
}

}  // namespace unisono::simulation
