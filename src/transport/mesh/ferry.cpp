#include "transport/mesh/ferry.hpp"

#include <algorithm>
#include <new>

#include "base/str.hpp"

namespace unisono::mesh {
namespace {

// From a rank that leaves: what it has sent on a link that the harbour is about to hand over.
constexpr Milliseconds kSentBefore(20);
// For a watch.
constexpr Milliseconds kWatchTime(10'000);
// So long a first message waits for its link; then others go before it.
constexpr Milliseconds kAtOnce(50);

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

bool Ferry::carry(Cargo& cargo) {
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
        moved = (link != nullptr && sendTo(peer, *link, cargo)) || moved;
      }
      if (there.in.isOpen()) {
        Link* link = mesh_.incoming(peer);
        moved = (link != nullptr && receiveFrom(peer, *link, cargo)) || moved;
      }
    }
  });
  return lives && moved;
}

bool Ferry::owes() const noexcept {
  return std::any_of(routes_.begin(), routes_.end(), [](const Route& each) { return each.owes(); });
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
