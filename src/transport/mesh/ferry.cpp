#include "transport/mesh/ferry.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <sys/socket.h>

#include "base/str.hpp"

namespace unisono::mesh {
namespace {

using shm::FrameKind;

// The receiver tells of so much that it has given away, which is far less than it may keep.
constexpr std::uint64_t kCreditStep = 256 * 1024;
// From a rank that leaves: what it has sent on a link that the harbour is about to hand over.
constexpr Milliseconds kSentBefore(20);
// For a watch.
constexpr Milliseconds kWatchTime(10'000);
// So long a first message waits for its link; then others go before it.
constexpr Milliseconds kAtOnce(50);

std::uint64_t costOf(std::uint64_t bytes) noexcept {
  return bytes + kKeepingOne;
}

MailHead onWire(const shm::Frame& frame) noexcept {
  using Kind = MailHead::Kind;
  switch (frame.kind) {
    case FrameKind::MESSAGE:
      return {.kind = Kind::MESSAGE, .tag = frame.tag, .bytes = frame.bytes, .length = frame.bytes};
    case FrameKind::OFFER:
      return {.kind = Kind::OFFER, .tag = frame.tag, .number = frame.number, .length = frame.bytes};
    case FrameKind::PART:
      return {.kind = Kind::PART, .number = frame.number, .bytes = frame.bytes};
    default:
      return {.kind = Kind::TAKE, .number = frame.number};
  }
}

shm::Frame fromWire(const MailHead& head) noexcept {
  using Kind = MailHead::Kind;
  switch (head.kind) {
    case Kind::MESSAGE:
      return {.kind = FrameKind::MESSAGE, .tag = head.tag, .bytes = head.bytes};
    case Kind::OFFER:
      return {
          .kind = FrameKind::OFFER, .tag = head.tag, .bytes = head.length, .number = head.number};
    case Kind::PART:
      return {.kind = FrameKind::PART, .bytes = head.bytes, .number = head.number};
    default:
      return {.kind = FrameKind::TAKE, .number = head.number};
  }
}

}  // namespace

/// Sleeps until one of the links can be used, or something is new.
class Ferry::Sleeper final : public Waitable {
 public:
  explicit Sleeper(Ferry& ferry) : ferry_(ferry) {}
  void sleep(Milliseconds most) override {
    std::vector<pollfd>& entries = ferry_.entries_;
    static_cast<void>(::poll(entries.data(), entries.size(), static_cast<int>(most.count())));
    ferry_.mesh_.clearBell();
  }

 private:
  Ferry& ferry_;
};

Ferry::Ferry(Mesh& mesh)
    : mesh_(mesh),
      pipeBytes_(shm::pipeBytes(static_cast<std::size_t>(mesh.size()))),
      routes_(static_cast<std::size_t>(mesh.size())) {}

Ferry::~Ferry() {
  ends_.store(true, std::memory_order_release);  // ends the dials, which are joined
}

template <typename Action>
bool Ferry::inTurn(Action action) {
  try {
    const Mesh::Turn turn(mesh_);
    action();
    return true;
  } catch (const Mesh::Lost& lost) {
    mesh_.fail(lost.cause);
  } catch (const std::bad_alloc&) {
    mesh_.fail({.reason = Reason::RESOURCE,
                .culprits = {rank()},
                .reporter = rank(),
                .text = "no memory is left for messages"});
  }
  return false;
}

/// One end of the pipe in `memory`, which is made when there is none.
shm::Pipe Ferry::open(Memory& memory) const {
  if (memory.empty()) {
    memory.resize(pipeBytes_ / sizeof(Chunk));
  }
  return shm::Pipe({memory.front().bytes, pipeBytes_});
}

shm::Pipe Ferry::pipe(int from, int to, Deadline deadline) {
  if (from == to) {
    return open(route(rank()).outMemory);  // both ends are Mail's
  }
  if (to == rank()) {
    Route& theirs = route(from);
    shm::Pipe end = open(theirs.inMemory);
    theirs.in = end;
    return end;
  }
  Route& mine = route(to);
  if (mesh_.hasFailed()) {
    return {};
  }
  shm::Pipe end = open(mine.outMemory);
  mine.out = end;
  if (mine.isConnected || mine.isDialing) {
    return end;
  }
  dial(to, deadline);
  // Nearly always it is there at once, and so is the word that a rank has gone.
  const bool lives = !awaitAnswer(to, deadline) || inTurn([&] { answered(to); });
  return lives ? end : shm::Pipe();
}

/// Whether the dial is over, after a moment.
bool Ferry::awaitAnswer(int peer, Deadline deadline) {
  Dial& dial = dials_[peer];
  const MutexLock lock(dial.mutex);
  CondWaitable on(dial.changed, dial.mutex);
  return waitUntil([&] { return dial.isOver.load(std::memory_order_acquire); },
                   {.deadline = deadline.within(kAtOnce), .subject = {}}, on);
}

/// On a thread of its own: the caller has the lock of Mail, which others want.
void Ferry::dial(int peer, Deadline deadline) {
  Dial& dial = dials_[peer];
  dial.thread = Thread("unisono-dial", [this, peer, &dial, until = deadline.orOnce(ends_)] {
    try {
      dial.socket = mesh_.dial(peer, until);
    } catch (const Mesh::Lost& lost) {
      dial.failure = lost.cause;
    } catch (const std::exception& error) {
      dial.failure = AbortCause{.reason = Reason::RESOURCE,
                                .culprits = {rank()},
                                .reporter = rank(),
                                .text = error.what()};
    }
    {
      const MutexLock lock(dial.mutex);
      dial.isOver.store(true, std::memory_order_release);
      dial.changed.notifyAll();
    }
    mesh_.ring();
  });
  route(peer).isDialing = true;
}

/// A dial is over. Throws Lost when it has failed and somebody has something to send.
void Ferry::answered(int peer) {
  Route& there = route(peer);
  Dial& dial = dials_[peer];
  there.isDialing = false;
  Socket socket = std::move(dial.socket);
  const auto failure = std::move(dial.failure);
  dials_.erase(peer);
  if (!failure) {
    mesh_.adopt(peer, std::move(socket));
    there.isConnected = true;
  } else if (there.out.isOpen()) {
    throw Mesh::Lost{mesh_.toldCause().value_or(*failure)};
  } else {
    there.isGone = true;  // nobody is there to make use of credit; if it has died, its link tells
  }
}

AbortCause Ferry::whyNotOpen(int /*from*/, int /*to*/) {
  return mesh_.cause().value_or(AbortCause{});
}

bool Ferry::carry() {
  rung_ = false;
  if (mesh_.hasFailed()) {
    return false;
  }
  bool moved = false;
  const bool lives = inTurn([&] {
    for (int peer = 0; peer < size(); ++peer) {
      Route& there = route(peer);
      if (!there.isConnected && !there.isDialing && !there.isGone && isCreditDue(there)) {
        dial(peer, Deadline::after(kWatchTime));
      }
      if (there.isDialing && dials_[peer].isOver.load(std::memory_order_acquire)) {
        answered(peer);
        moved = true;
      }
      if (there.isConnected) {
        Link* link = mesh_.outgoing(peer);
        there.isConnected = link != nullptr;  // else this rank has left
        moved = (link != nullptr && sendTo(peer, *link)) || moved;
      }
      if (there.in.isOpen()) {
        Link* link = mesh_.incoming(peer);
        moved = (link != nullptr && receiveFrom(peer, *link)) || moved;
      }
    }
  });
  return lives && moved;
}

bool Ferry::owes() const noexcept {
  return std::any_of(routes_.begin(), routes_.end(), [](const Route& each) { return each.owes(); });
}

// --- sending ---

/// Whether anything was sent.
bool Ferry::sendTo(int peer, Link& link) {
  Route& to = route(peer);
  bool moved = false;
  for (load(to); to.left < to.leaving.size(); load(to)) {  // ends when the kernel takes no more
    const ssize_t sent = ::send(link.socket.fd(), to.leaving.data() + to.left,
                                to.leaving.size() - to.left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && isForLater()) {
      break;
    }
    if (sent < 0) {
      endOf(link);
      to.isConnected = false;  // who still needs that rank is told so by Mail
      to.isGone = true;
      break;
    }
    to.left += static_cast<std::size_t>(sent);
    moved = true;
    link.sender = to.left < to.leaving.size() ? &to : nullptr;
  }
  return moved;
}

/// Takes frames out of the pipe, when all before are sent.
void Ferry::load(Route& route) const {
  if (route.left < route.leaving.size()) {
    return;
  }
  route.leaving.clear();
  route.left = 0;
  Frame::Bytes head;
  if (isCreditDue(route)) {
    route.told = route.given();
    MailHead{.kind = MailHead::Kind::CREDIT, .length = route.told}.encode(head);
    route.leaving.insert(route.leaving.end(), head.begin(), head.end());
  }
  while (route.out.isOpen() && route.out.hasFrame() && route.leaving.size() < pipeBytes_) {
    shm::Frame frame;
    static_cast<void>(route.out.look(frame));  // this process has put it in
    const MailHead onTheWay = onWire(frame);
    onTheWay.encode(head);
    const std::size_t at = route.leaving.size() + head.size();
    route.leaving.insert(route.leaving.end(), head.begin(), head.end());
    route.leaving.resize(at + onTheWay.bytes);
    route.out.take(frame, route.leaving.data() + at);
    if (frame.kind == FrameKind::MESSAGE) {
      route.sent += costOf(frame.bytes);
      route.out.tellKept(route.sent - route.taken);
    }
  }
}

bool Ferry::isCreditDue(const Route& route) {
  return route.in.isOpen() && route.given() >= route.told + kCreditStep;
}

// --- receiving ---

/// Whether anything has come.
bool Ferry::receiveFrom(int peer, Link& link) {
  Route& from = route(peer);
  if (from.arriving.empty()) {
    from.arriving.resize(pipeBytes_);
    link.receiver = &from;  // nobody else may read here
  }
  bool moved = false;
  for (;;) {  // ends when nothing more is there, or there is no room for it
    const std::size_t used = unload(peer, link);
    std::memmove(from.arriving.data(), from.arriving.data() + used, from.got - used);
    from.got -= used;
    moved = moved || used > 0;
    if (from.isFull || link.isQuiet) {
      break;
    }
    const ssize_t got = ::recv(link.socket.fd(), from.arriving.data() + from.got,
                               from.arriving.size() - from.got, MSG_DONTWAIT);
    if (got < 0 && isForLater()) {
      break;
    }
    if (got <= 0) {
      endOf(link, from.got == 0);
      break;
    }
    from.got += static_cast<std::size_t>(got);
  }
  return moved;
}

/// Puts whole frames into the pipe, as long as it has room; how many bytes they took.
std::size_t Ferry::unload(int peer, Link& link) {
  Route& from = route(peer);
  from.isFull = false;
  std::size_t at = 0;
  for (;;) {  // ends with the bytes
    Frame::Bytes bytes;
    if (from.got - at < bytes.size()) {
      return at;
    }
    std::memcpy(bytes.data(), from.arriving.data() + at, bytes.size());
    const auto head = MailHead::decode(bytes);
    if (!head) {
      hearNews(peer, link, bytes, at + bytes.size());
      at += bytes.size();
      continue;
    }
    if (head->kind == MailHead::Kind::CREDIT) {
      hearCredit(peer, head->length);
      at += bytes.size();
      continue;
    }
    if (head->bytes > from.arriving.size() / 2) {
      makesNoSense(peer);
    }
    if (from.got - at < bytes.size() + head->bytes) {
      return at;
    }
    if (!from.in.hasRoom(head->bytes)) {
      from.isFull = true;
      return at;
    }
    from.in.put(fromWire(*head), {from.arriving.data() + at + bytes.size(), head->bytes});
    from.received += head->kind == MailHead::Kind::MESSAGE ? costOf(head->bytes) : 0;
    at += bytes.size() + head->bytes;
  }
}

/// A frame that is no message: the peer leaves, or its group has failed. What follows it begins at
/// `next`.
void Ferry::hearNews(int peer, Link& link, const Frame::Bytes& bytes, std::size_t next) {
  const Route& from = route(peer);
  const auto frame = Frame::decode(bytes);
  if (frame && frame->kind == Frame::Kind::BYE) {
    link.hasLeft = true;
    link.leftAt = systemClock().now();
  } else if (frame && frame->kind == Frame::Kind::ABORT) {
    const auto* begun = reinterpret_cast<const char*>(from.arriving.data() + next);
    throw Mesh::Lost{mesh_.readCause(link, frame->bytes, std::string(begun, from.got - next))};
  } else {
    makesNoSense(peer);
  }
}

/// So much of this rank's short messages the peer does not keep any more.
void Ferry::hearCredit(int peer, std::uint64_t taken) {
  Route& to = route(peer);
  if (taken > to.sent || taken <= to.taken) {
    makesNoSense(peer);
  }
  to.taken = taken;
  to.out.tellKept(to.sent - to.taken);
}

// --- how peers are ---

/// A link has ended. Throws Lost unless the rank has left, and `mayLeave`: with nothing by half.
void Ferry::endOf(Link& link, bool mayLeave) {
  if (!link.hasLeft || !mayLeave) {
    const AbortCause cause = mesh_.whyLost(link.peer);
    // A group that failed because somebody left has a reporter elsewhere.
    if (cause.reason != Reason::PEER_LEFT || cause.reporter != rank() || !mayLeave) {
      throw Mesh::Lost{cause};
    }
    link.leftAt = systemClock().now();
  }
  link.hasLeft = true;
  link.isQuiet = true;  // nothing more will come
}

/// News on a link that brings no messages: an end, a cause.
void Ferry::lookAt(Link& link) {
  if ((link.purpose == Purpose::MAIL && !link.outgoing) || (link.hasLeft && link.isQuiet)) {
    return;
  }
  try {
    link.isQuiet = mesh_.look(link);
  } catch (const Mesh::Lost& lost) {
    if (lost.cause.reason != Reason::PEER_LEFT || lost.cause.reporter != rank()) {
      throw;
    }
    link.hasLeft = true;
    link.leftAt = systemClock().now();
    link.isQuiet = true;
  }
}

void Ferry::listen() {
  if (!mesh_.hasFailed()) {
    inTurn([&] {
      for (std::size_t i = 0; i < mesh_.links().size(); ++i) {  // a look may find more of them
        lookAt(*mesh_.links()[i]);
      }
    });
  }
}

void Ferry::beforeSleep() {
  entries_.assign(1, {.fd = mesh_.bell(), .events = POLLIN, .revents = 0});
  listen();
  if (mesh_.hasFailed()) {
    wake();
    return;
  }
  inTurn([&] {
    for (const auto& link : mesh_.links()) {
      if (const short events = eventsOf(*link); events != 0) {
        entries_.push_back({.fd = link->socket.fd(), .events = events, .revents = 0});
      }
    }
  });
}

short Ferry::eventsOf(const Link& link) const noexcept {
  const Route& there = route(link.peer);
  const bool isIncoming = link.purpose == Purpose::MAIL && !link.outgoing;
  const bool sends = link.purpose == Purpose::MAIL && link.outgoing && there.owes();
  return static_cast<short>((link.isQuiet || (isIncoming && there.isFull) ? 0 : POLLIN) |
                            (sends ? POLLOUT : 0));
}

std::unique_ptr<Waitable> Ferry::sleeper() {
  return std::make_unique<Sleeper>(*this);
}

Carrier::PeerState Ferry::stateOf(int peer) {
  bool left = false;
  inTurn([&] {
    // What it has sent comes before its goodbye, but only on the link from there.
    if (const Link* from = peer == rank() ? nullptr : mesh_.incoming(peer)) {
      left = from->hasLeft;
      return;
    }
    left = route(peer).isGone;
    for (const auto& link : mesh_.links()) {
      left =
          left || (link->peer == peer && link->hasLeft && elapsedSince(link->leftAt) > kSentBefore);
    }
  });
  return left ? PeerState::LEFT : PeerState::HERE;
}

bool Ferry::hasCrashed(int peer) {
  if (peer == rank()) {
    return false;
  }
  if (mesh_.isDumpingCore(peer)) {  // one on another host is found dead when it is done
    return true;
  }
  inTurn([&] {
    mesh_.watch(peer, Deadline::after(kWatchTime));
    askHosts();
  });
  return false;
}

void Ferry::expectAnybody() {
  for (int peer = 0; peer < size() && !mesh_.hasFailed(); ++peer) {
    if (peer == rank() || route(peer).isGone) {
      continue;
    }
    inTurn([&] {
      try {
        mesh_.watch(peer, Deadline::after(kWatchTime));
      } catch (const Mesh::Lost& lost) {
        if (lost.cause.reason != Reason::PEER_LEFT) {
          throw;
        }
        route(peer).isGone = true;  // others may send
      }
      askHosts();
    });
  }
}

/// Whether they are silent; for many parcels once.
void Ferry::askHosts() {
  if (askHostsAt_.expired()) {
    askHostsAt_ = Deadline::after(Mesh::kAskHosts);
    mesh_.checkHosts();
  }
}

int Ferry::processOf(int peer) const {
  const auto mark = decodeMark(mesh_.roster()[static_cast<std::size_t>(peer)].process);
  return mark ? mark->pid : 0;
}

void Ferry::makesNoSense(int peer) const {
  throw Mesh::Lost{{.reason = Reason::PROTOCOL,
                    .culprits = {peer},
                    .reporter = rank(),
                    .text = str("what ", mesh_.nameOf(peer), " has sent makes no sense")}};
}

}  // namespace unisono::mesh
