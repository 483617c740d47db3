#include "transport/mesh/mesh.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "base/host.hpp"
#include "base/log.hpp"
#include "base/str.hpp"
#include "net/secret.hpp"

namespace unisono::mesh {
namespace {

// From the harbour to who waits.
constexpr Milliseconds kOnItsWay(20);

/// The key of a group: who knows what rank 0 left in the store knows it, and the job's secret if
/// there is one.
Key groupKey(const std::string& cookie) {
  const std::optional<Secret> secret = jobSecret();
  return deriveKey(Secret({secret ? secret->view() : "", cookie}).view(), "mesh");
}

/// By which a group is found; the cookie itself is not shown to strangers.
std::string groupId(const std::string& cookie) {
  const Key whole = deriveKey(cookie, "mesh-id");
  return {reinterpret_cast<const char*>(whole.data()), 16};
}

void requirePermission(const SocketAddress& address) {
  if (address.isLoopback() || jobSecret() || isUnauthenticatedAllowed()) {
    return;
  }
  throw UsageError(
      {.reason = Reason::CONFIG,
       .what = str("ranks of other hosts would reach this one at ", address.hostText(),
                   ", and the job has no secret by which strangers could be told from them"),
       .hint = "give all processes the same UNISONO_AUTH_SECRET_FILE, or permit it on a trusted "
               "network with UNISONO_ALLOW_UNAUTHENTICATED=1"});
}

/// Where it is listened at. The first must do, the others are more ways to the same.
std::vector<SocketAddress> listenAt(const std::vector<SocketAddress>& addresses) {
  std::vector<SocketAddress> open;
  for (const SocketAddress& each : addresses) {
    requirePermission(each);
    try {
      open.push_back(each.withPort(Harbour::instance().listenAt(each)));
    } catch (const DistNetworkError& error) {
      if (open.empty()) {
        throw;
      }
      UNISONO_LOG(INFO, "transport", each.hostText(), " is not told to others: ", error.what());
    }
  }
  return open;
}

}  // namespace

Mesh::Mesh(const MeetOptions& options, Mesh* operations)
    : options_(options),
      id_(groupId(options.cookie)),
      key_(groupKey(options.cookie)),
      here_(thisProcess()),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      operations_(operations),
      record_(operations != nullptr ? operations->own_ : own_),
      roster_(operations != nullptr ? operations->members_ : members_),
      mail_(operations != nullptr ? nullptr : new Mesh(options, this)),
      out_(static_cast<std::size_t>(options.size)),
      in_(static_cast<std::size_t>(options.size)),
      watched_(static_cast<std::size_t>(options.size)) {
  if (!bell_.valid()) {
    throw DistError(
        {.reason = Reason::RESOURCE,
         .what = str("no descriptor for group '", options.group, "': ", errnoDetail(errno)),
         .hint = "raise the limit of open descriptors (ulimit -n)"});
  }
}

std::vector<HostPort> Mesh::listen(const StorePtr& store, Deadline deadline) {
  static_cast<void>(deriveKey("", "mesh"));  // the first is slow: a library gets ready
  std::vector<HostPort> addresses;
  const auto own = listenAt(ownAddresses(store, deadline));
  for (const SocketAddress& each : announcedAddresses(own, deadline)) {
    addresses.push_back({each.hostText(), each.port()});
  }
  return addresses;
}

std::unique_ptr<Mesh> Mesh::form(const MeshOptions& options) {
  const Deadline deadline = Deadline::after(options.meet.timeout - options.meet.spent);
  std::unique_ptr<Mesh> mesh(new Mesh(options.meet, nullptr));
  const Member self{.host = hostId(),
                    .process = encodeMark(mesh->here_),
                    .settings = options.settings,
                    .addresses = options.addresses.empty() ? listen(options.meet.store, deadline)
                                                           : options.addresses};
  // Before the card is left: from then on others may come.
  mesh->berth_ = Harbour::instance().moor(
      {.id = mesh->id_, .rank = static_cast<std::uint32_t>(mesh->rank())}, mesh->key_, *mesh);
  mesh->roster_ = mesh->meetOthers(self, options.hearsay);
  return mesh;
}

Mesh::~Mesh() {
  if (!madeIn_.inChild()) {
    leave();
  }
}

int Mesh::ranksHere() const {
  const std::string& host = roster_[static_cast<std::size_t>(rank())].host;
  return static_cast<int>(std::count_if(roster_.begin(), roster_.end(),
                                        [&](const Member& each) { return each.host == host; }));
}

std::vector<int> Mesh::inWorld(const std::vector<int>& ranks) const {
  std::vector<int> world;
  for (const int rank : ranks) {
    const auto at = static_cast<std::size_t>(rank);
    world.push_back(at < options_.globalRanks.size() ? options_.globalRanks[at] : rank);
  }
  return world;
}

std::string Mesh::nameOf(int rank) const {
  return str("rank ", inWorld({rank}).front());
}

std::string Mesh::placeOf(int rank) const {
  const auto mark = decodeMark(roster_[static_cast<std::size_t>(rank)].process);
  return mark ? str("process ", mark->pid, " on ", mark->host) : "on an unknown host";
}

std::optional<pid_t> Mesh::visibleProcess(int peer) const {
  const auto mark = decodeMark(roster_[static_cast<std::size_t>(peer)].process);
  const bool isSeen = mark && mark->boot == here_.boot && mark->pidNamespace == here_.pidNamespace;
  return isSeen ? std::optional(mark->pid) : std::nullopt;
}

std::string Mesh::describe(int rank) const {
  const auto process = visibleProcess(rank);
  if (!process) {
    return placeOf(rank);
  }
  const bool isHere = roster_[static_cast<std::size_t>(rank)].host ==
                      roster_[static_cast<std::size_t>(options_.rank)].host;
  return str(isHere ? str("process ", *process) : placeOf(rank), ", ",
             describeState(lookAt(*process)));
}

bool Mesh::isDumpingCore(int peer) const {
  const auto process = visibleProcess(peer);
  return process && unisono::isDumpingCore(*process);
}

bool Mesh::isStopped(int peer) const {
  const auto process = visibleProcess(peer);
  const auto state = process ? lookAt(*process) : std::nullopt;
  return state && (state->state == 'T' || state->state == 't');
}

Purpose Mesh::purpose() const noexcept {
  return operations_ != nullptr ? Purpose::MAIL : Purpose::LINK;
}

Link& Mesh::connect(int peer, Deadline deadline) {
  return adopt(peer, reach(peer, purpose(), deadline, [this] { return toldCause(); }));
}

Socket Mesh::dial(int peer, Deadline deadline) const {
  return reach(peer, purpose(), deadline, [] { return std::nullopt; });
}

Link& Mesh::adopt(int peer, Socket socket) {
  Link& link =
      add({.peer = peer, .purpose = purpose(), .outgoing = true, .socket = std::move(socket)});
  out_[static_cast<std::size_t>(peer)] = &link;
  return link;
}

Link* Mesh::incoming(int peer) {
  Link*& there = in_[static_cast<std::size_t>(peer)];
  if (there == nullptr) {
    collectArrivals();
  }
  return there;
}

void Mesh::watch(int peer, Deadline deadline) {
  const auto at = static_cast<std::size_t>(peer);
  for (const auto& link : all_) {
    // It may have connected and sent something before it left: that is on its way here.
    if (link->peer == peer && link->hasLeft && elapsedSince(link->leftAt) > kOnItsWay &&
        incoming(peer) == nullptr) {
      throw Lost{whyLost(peer)};
    }
  }
  // One that is stopped does not answer now, and is not gone.
  if (out_[at] == nullptr && in_[at] == nullptr && !watched_[at] && !isStopped(peer)) {
    Socket socket = reach(peer, Purpose::WATCH, deadline, [this] { return toldCause(); });
    if (socket.valid()) {
      add({.peer = peer, .purpose = Purpose::WATCH, .outgoing = true, .socket = std::move(socket)});
      watched_[at] = true;
    }
  }
}

Link& Mesh::add(Link link) {
  all_.push_back(std::make_unique<Link>(std::move(link)));
  return *all_.back();
}

void Mesh::arrive(const Note& note, UniqueFd connection) noexcept {
  if (note.from >= static_cast<std::uint32_t>(size()) ||
      note.from == static_cast<std::uint32_t>(rank())) {
    return;
  }
  if (note.purpose == Purpose::MAIL && mail_) {
    return mail_->arrive(note, std::move(connection));
  }
  try {
    const MutexLock lock(arrivals_);
    if (hasFailed()) {
      // All who were here have been told. To this one an end without a word would be a death.
      const std::string text = encodeCause(record_.read().value_or(AbortCause{}));
      Frame::Bytes head;
      Frame{.kind = Frame::Kind::ABORT, .bytes = text.size()}.encode(head);
      const std::string bytes =
          std::string(reinterpret_cast<const char*>(head.data()), head.size()) + text;
      static_cast<void>(
          ::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
      return;
    }
    arrived_.push_back({.peer = static_cast<int>(note.from),
                        .purpose = note.purpose,
                        .outgoing = false,
                        .socket = Socket(std::move(connection), streamOptions_.netDead)});
  } catch (const std::bad_alloc&) {
    return;  // it sees the end of its connection
  }
  ring();
}

/// What the harbour has brought since.
void Mesh::collectArrivals() {
  std::vector<Link> news;
  {
    const MutexLock lock(arrivals_);
    news.swap(arrived_);
  }
  for (Link& link : news) {
    const auto from = static_cast<std::size_t>(link.peer);
    if (link.purpose == Purpose::WATCH) {
      add(std::move(link));
    } else if (in_[from] == nullptr) {
      in_[from] = &add(std::move(link));
    } else {
      UNISONO_LOG(WARN, "transport", nameOf(link.peer), " of group '", group(),
                  "' has connected twice; the second connection is closed");
    }
  }
}

void Mesh::ring() const noexcept {
  static_cast<void>(::eventfd_write(bell_.get(), 1));
}

void Mesh::clearBell() const noexcept {
  eventfd_t count = 0;
  static_cast<void>(::eventfd_read(bell_.get(), &count));
}

Report Mesh::report() const {
  const auto failure = record_.read();
  const bool left = hasLeft_.load(std::memory_order_acquire);
  return {.state = failure ? Report::State::FAILED
                   : left  ? Report::State::LEFT
                           : Report::State::LIVE,
          .seq = calls_.last(),
          .cause = failure,
          .calls = calls_.all()};
}

Mesh::Turn::Turn(Mesh& mesh) noexcept : mesh_(mesh) {
  // Acquire and release: what was done to the links in one turn is seen in the next.
  while (mesh_.taken_.exchange(true, std::memory_order_acquire)) {  // ends when others were told
    std::this_thread::yield();
  }
}

Mesh::Turn::~Turn() {
  // An exchange, as in tellFailure(): one of the two comes first, and the other sees what was
  // before it. So either the cause is seen here, or who found it sees that nobody has a turn.
  mesh_.taken_.exchange(false, std::memory_order_acq_rel);
  if (mesh_.hasFailed()) [[unlikely]] {
    mesh_.tellFailure();
  }
}

AbortCause Mesh::fail(const AbortCause& cause) noexcept {
  if (record_.publish(cause)) {
    Mesh& operations = operations_ != nullptr ? *operations_ : *this;
    for (Mesh* each : {&operations, operations.mail_.get()}) {
      each->ring();
      each->tellFailure();
    }
  }
  return record_.read().value_or(cause);
}

std::vector<int> Mesh::culpritsNow(const AbortCause& cause) {
  std::vector<int> culprits = cause.culprits;
  if (cause.reason != Reason::PEER_DEAD) {
    return culprits;
  }
  const Turn turn(*this);
  for (const auto& link : all_) {
    // Only what this rank has made: from the other side nothing comes there but a word.
    if (link->outgoing &&
        std::find(culprits.begin(), culprits.end(), link->peer) == culprits.end() &&
        hasEndedSilently(*link)) {
      culprits.push_back(link->peer);
    }
  }
  std::sort(culprits.begin(), culprits.end());
  return culprits;
}

/// Once, unless somebody has its turn: then that one does it.
void Mesh::tellFailure() noexcept {
  if (taken_.exchange(true, std::memory_order_acq_rel)) {
    return;
  }
  if (!told_) {
    told_ = true;
    try {
      const std::string text = encodeCause(record_.read().value_or(AbortCause{}));
      sendToAll({.kind = Frame::Kind::ABORT, .bytes = text.size()}, text);
    } catch (const std::bad_alloc&) {
      // They see the end of their links, and ask.
    }
  }
  taken_.store(false, std::memory_order_release);
}

/// On every link on which it can be told from data; those on which it cannot are ended.
void Mesh::sendToAll(const Frame& frame, const std::string& rest) noexcept {
  Frame::Bytes head;
  frame.encode(head);
  try {
    const std::string bytes =
        std::string(reinterpret_cast<const char*>(head.data()), head.size()) + rest;
    collectArrivals();
    for (const auto& link : all_) {
      if (link->sender != nullptr ||
          ::send(link->socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
              static_cast<ssize_t>(bytes.size())) {
        link->socket.shutdown();
      }
    }
  } catch (const std::bad_alloc&) {
    for (const auto& link : all_) {
      link->socket.shutdown();
    }
  }
}

void Mesh::leave() noexcept {
  if (hasLeft_.exchange(true, std::memory_order_acq_rel)) {
    return;
  }
  berth_.leave();  // from here on the harbour answers by itself
  if (mail_) {
    mail_->leave();
  }
  const Turn turn(*this);
  if (!hasFailed()) {
    sendToAll({.kind = Frame::Kind::BYE}, {});
  }
  std::fill(out_.begin(), out_.end(), nullptr);
  std::fill(in_.begin(), in_.end(), nullptr);
  all_.clear();
}

}  // namespace unisono::mesh
