// What a Ferry sends and receives.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/mesh/ferry.hpp"

namespace unisono::mesh {
namespace {

using shm::FrameKind;

// The receiver tells of so much that it has given away, which is far less than it may keep.
constexpr std::uint64_t kCreditStep = 256 * 1024;
// Of a long message, before what else there is for that rank.
constexpr std::size_t kLongestPart = 256 * 1024;
// With one rank: the others come next.
constexpr std::size_t kAtATime = kLongestPart;

std::uint64_t costOf(std::uint64_t bytes) noexcept {
  return bytes + kKeepingOne;
}

/// Parts do not go through pipes.
MailHead onWire(const shm::Frame& frame) noexcept {
  using Kind = MailHead::Kind;
  switch (frame.kind) {
    case FrameKind::MESSAGE:
      return {.kind = Kind::MESSAGE, .tag = frame.tag, .bytes = frame.bytes, .length = frame.bytes};
    case FrameKind::OFFER:
      return {.kind = Kind::OFFER, .tag = frame.tag, .number = frame.number, .length = frame.bytes};
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
    default:
      return {.kind = FrameKind::TAKE, .number = head.number};
  }
}

}  // namespace

// --- sending ---

/// Whether anything was sent.
bool Ferry::sendTo(int peer, Link& link, Cargo& cargo) {
  Route& to = route(peer);
  std::size_t gone = 0;
  for (load(peer, cargo); to.isLoaded() && gone < kAtATime; load(peer, cargo)) {
    const auto piece = to.partLeft > 0 ? cargo.toSend(peer) : std::nullopt;
    if (to.partLeft > 0 && !piece) {
      link.socket.shutdown();  // what was begun cannot be ended: its sender has gone with it
      to.isConnected = false;
      to.isGone = true;
      break;
    }
    const std::size_t before = to.leaving.size() - to.left;
    const ssize_t result =
        sendLoaded(to, link, piece ? piece->rest.first(to.partLeft) : std::span<const std::byte>());
    if (result < 0 && isForLater()) {
      break;
    }
    if (result < 0) {
      endOf(link);
      to.isConnected = false;  // who still needs that rank is told so by Mail
      to.isGone = true;
      break;
    }
    const auto bytes = static_cast<std::size_t>(result);
    to.left += std::min(bytes, before);
    if (bytes > before) {
      to.partLeft -= bytes - before;
      cargo.sent(peer, bytes - before);
    }
    gone += bytes;
    link.sender = to.isLoaded() ? &to : nullptr;
  }
  return gone > 0;
}

/// Frames, and what follows them.
ssize_t Ferry::sendLoaded(Route& to, const Link& link, std::span<const std::byte> part) {
  iovec pieces[] = {{to.leaving.data() + to.left, to.leaving.size() - to.left},
                    {const_cast<std::byte*>(part.data()), part.size()}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  return ::sendmsg(link.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Takes frames out of the pipe, and then some of a long message, when all before are sent.
void Ferry::load(int peer, Cargo& cargo) {
  Route& route = this->route(peer);
  if (route.isLoaded()) {
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
  if (const auto piece = cargo.toSend(peer)) {
    route.partLeft = std::min(piece->rest.size(), kLongestPart);
    MailHead{.kind = MailHead::Kind::PART, .number = piece->number, .bytes = route.partLeft}.encode(
        head);
    route.leaving.insert(route.leaving.end(), head.begin(), head.end());
    if (route.partLeft == 0) {
      cargo.sent(peer, 0);
    }
  }
}

bool Ferry::isCreditDue(const Route& route) {
  return route.in.isOpen() && route.given() >= route.told + kCreditStep;
}

// --- receiving ---

/// Whether anything has come.
bool Ferry::receiveFrom(int peer, Link& link, Cargo& cargo) {
  Route& from = route(peer);
  if (from.arriving.empty()) {
    from.arriving.resize(pipeBytes_);
    link.receiver = &from;  // nobody else may read here
  }
  bool moved = unload(peer, link, cargo);  // what there was no room for before
  for (std::size_t came = 0; came < kAtATime && !from.isFull && !link.isQuiet;) {
    const ssize_t got = receiveSome(peer, link, cargo);
    if (got < 0 && isForLater()) {
      break;
    }
    if (got <= 0) {
      endOf(link, from.got == 0 && from.partDue == 0);
      break;
    }
    came += static_cast<std::size_t>(got);
    moved = true;
    unload(peer, link, cargo);
  }
  return moved;
}

/// What has come, as recv(): of a long message straight to where it belongs.
ssize_t Ferry::receiveSome(int peer, const Link& link, Cargo& cargo) {
  Route& from = route(peer);
  const std::span<std::byte> room = roomFor(peer, cargo);
  // After a part no more than the next head, so that what follows that goes straight, too.
  const std::size_t most = room.empty() ? from.arriving.size() - from.got : sizeof(Frame::Bytes);
  iovec pieces[] = {{room.data(), room.size()}, {from.arriving.data() + from.got, most}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  const ssize_t got = ::recvmsg(link.socket.fd(), &message, MSG_DONTWAIT);
  if (got > 0) {
    const std::size_t straight = std::min(static_cast<std::size_t>(got), room.size());
    partCame(peer, straight, cargo);
    from.got += static_cast<std::size_t>(got) - straight;
  }
  return got;
}

/// For what is still to come of a part; none where it comes, or is thrown away, with all else.
std::span<std::byte> Ferry::roomFor(int peer, Cargo& cargo) {
  const Route& from = route(peer);
  const auto room =
      from.partDue > 0 && !isWithdrawn_ ? cargo.roomFor(peer, from.partNumber) : std::nullopt;
  return room ? room->first(std::min(from.partDue, room->size())) : std::span<std::byte>();
}

void Ferry::partCame(int peer, std::size_t bytes, Cargo& cargo) {
  Route& from = route(peer);
  from.partDue -= bytes;
  if (bytes > 0 && !isWithdrawn_) {
    cargo.received(peer, from.partNumber, bytes);
  }
}

/// The head of a part has come.
void Ferry::beginPart(int peer, const MailHead& head, Cargo& cargo) {
  Route& from = route(peer);
  const auto room = isWithdrawn_ ? std::nullopt : cargo.roomFor(peer, head.number);
  if (!isWithdrawn_ && (!room || head.bytes > room->size())) {
    makesNoSense(peer);
  }
  from.partDue = head.bytes;
  from.partNumber = head.number;
  if (room && head.bytes == 0) {
    cargo.received(peer, head.number, 0);
  }
}

/// Puts what has come where it belongs, as long as there is room; whether anything was.
bool Ferry::unload(int peer, Link& link, Cargo& cargo) {
  Route& from = route(peer);
  const std::size_t used = unloadFrames(peer, link, cargo);
  std::memmove(from.arriving.data(), from.arriving.data() + used, from.got - used);
  from.got -= used;
  return used > 0;
}

/// Whole frames into the pipe, and parts of long messages into the memory of who receives them; how
/// many bytes they took.
std::size_t Ferry::unloadFrames(int peer, Link& link, Cargo& cargo) {
  Route& from = route(peer);
  from.isFull = false;
  std::size_t at = 0;
  for (;;) {  // ends with the bytes
    if (const std::size_t part = std::min(from.partDue, from.got - at); part > 0) {
      if (const std::span<std::byte> room = roomFor(peer, cargo); !room.empty()) {
        std::memcpy(room.data(), from.arriving.data() + at, std::min(part, room.size()));
      }
      partCame(peer, part, cargo);
      at += part;
    }
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
    if (head->kind == MailHead::Kind::PART) {
      beginPart(peer, *head, cargo);
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

}  // namespace unisono::mesh
