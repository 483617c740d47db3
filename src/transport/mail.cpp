#include "transport/mail.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/str.hpp"

namespace unisono {

using shm::FrameKind;

namespace {

/// The reader copies one part out while the writer copies the next one in.
constexpr std::size_t kPart = 8192;
/// Read at once; then it is looked whether the group still lives.
constexpr std::size_t kPull = std::size_t{1} << 20U;

/// Of moving what can be moved.
constexpr int kMostTurns = 16;

/// Of one peer's short messages that nobody has asked for; then it is held back.
constexpr std::size_t kMostKept = std::size_t{4} << 20U;

bool isFor(const Parcel& parcel, int source, const shm::Frame& frame) noexcept {
  return (parcel.peer == Parcel::kAnybody || parcel.peer == source) && parcel.tag == frame.tag;
}

}  // namespace

/// Opens what `parcel` needs, and puts it where it belongs.
void Mail::takeOn(const ParcelPtr& parcel) {
  open_.emplace(parcel.get(), parcel);
  nobodyLateBefore_ = std::min(nobodyLateBefore_, parcel->deadline);
  for (int peer = 0; peer < carrier_.size(); ++peer) {
    if (!open(line(peer).in, peer, rank_, parcel->deadline)) {
      return;
    }
  }
  if (!parcel->sends) {
    if (!matchEarly(parcel)) {
      wanted_.push_back(parcel);
    }
  } else if (Line& to = line(parcel->peer); open(to.out, rank_, parcel->peer, parcel->deadline)) {
    to.waiting.push_back(parcel);
  }
}

/// False when that has ended the group.
bool Mail::open(Pipe& pipe, int from, int to, Deadline deadline) {
  if (pipe.isOpen()) [[likely]] {
    return true;
  }
  try {
    pipe = carrier_.pipe(from, to, deadline);
  } catch (const DistError& error) {
    fail({.reason = error.reason(),
          .culprits = {rank_},
          .reporter = rank_,
          .seq = 0,
          .text = error.facts().what});
    return false;
  }
  if (!pipe.isOpen()) {
    fail(carrier_.whyNotOpen(from, to));
  }
  return pipe.isOpen();
}

void Mail::progress() {
  try {
    // Not on and on: others may want the lock.
    bool again = true;
    for (int turn = 0; again && turn < kMostTurns; ++turn) {
      again = carries_ && carrier_.carry(*this);
      if (open_.empty()) {
        continue;
      }
      for (int peer = 0; peer < carrier_.size(); ++peer) {
        if (line(peer).in.isOpen() && line(peer).in.hasFrame()) {
          receive(peer);
        }
      }
      for (int peer = 0; peer < carrier_.size(); ++peer) {
        send(peer);
      }
      pullSome();
      // What this rank has just sent to itself, or has still to be carried away.
      again = again || (line(rank_).in.isOpen() && line(rank_).in.hasFrame()) ||
              (carries_ && carrier_.wasRung());
    }
  } catch (const std::bad_alloc&) {
    fail({.reason = Reason::RESOURCE,
          .culprits = {rank_},
          .reporter = rank_,
          .seq = 0,
          .text = str("rank ", world(rank_), " has no memory left for messages")});
  }
}

// --- sending ---

void Mail::send(int peer) {
  Line& to = line(peer);
  if (!to.out.isOpen()) {
    return;
  }
  const bool some = sendAnswers(to);
  if (sendWaiting(to) || some) {
    carrier_.ring(peer);
  }
  while (sendParts(to, peer)) {}
}

/// Whether it is sent without being asked for.
bool Mail::goesAtOnce(const Line& to, std::size_t bytes) const noexcept {
  return bytes <= shortBytes_ && to.out.kept() < kMostKept;
}

bool Mail::sendAnswers(Line& to) {
  bool some = false;
  for (; !to.answers.empty() && to.out.hasRoom(0); to.answers.pop_front()) {
    to.out.put(to.answers.front(), {});
    some = true;
  }
  return some;
}

bool Mail::sendWaiting(Line& to) {
  bool some = false;
  for (; !to.waiting.empty(); to.waiting.pop_front()) {
    const ParcelPtr& parcel = to.waiting.front();
    const bool isWhole = goesAtOnce(to, parcel->bytes);
    if (!to.out.hasRoom(isWhole ? parcel->bytes : 0)) {
      break;
    }
    Frame frame{.kind = FrameKind::MESSAGE, .tag = parcel->tag, .bytes = parcel->bytes};
    if (isWhole) {
      to.out.put(frame, {parcel->data, parcel->bytes});
      over(parcel, rank_);
    } else {
      frame.kind = FrameKind::OFFER;
      frame.number = ++to.lastNumber;
      frame.address = reinterpret_cast<std::uint64_t>(parcel->data);
      to.out.put(frame, {});
      to.offered.emplace(frame.number, parcel);
    }
    some = true;
  }
  return some;
}

/// One part of a long message, if there is one and room for it. A carrier takes them by itself.
bool Mail::sendParts(Line& to, int peer) {
  const auto piece = carries_ && peer != rank_ ? std::nullopt : toSend(peer);
  const std::size_t part = std::min(piece ? piece->rest.size() : 0, kPart);
  if (!piece || !to.out.hasRoom(part)) {
    return false;
  }
  to.out.put({.kind = FrameKind::PART, .bytes = part, .number = piece->number},
             piece->rest.first(part));
  carrier_.ring(peer);
  sent(peer, part);
  return true;
}

std::optional<Cargo::Piece> Mail::toSend(int peer) {
  const Line& to = line(peer);
  if (to.streaming.empty()) {
    return std::nullopt;
  }
  const auto& [number, parcel] = to.streaming.front();
  return Piece{.number = number,
               .rest = {parcel->data + parcel->moved_, parcel->bytes - parcel->moved_}};
}

void Mail::sent(int peer, std::size_t bytes) {
  Line& to = line(peer);
  const ParcelPtr& parcel = to.streaming.front().second;
  parcel->moved_ += bytes;
  if (parcel->moved_ == parcel->bytes) {
    over(parcel, rank_);
    to.streaming.pop_front();
  }
}

// --- receiving ---

void Mail::receive(int peer) {
  Line& from = line(peer);
  while (!open_.empty() && from.in.hasFrame()) {
    Frame frame;
    if (!from.in.look(frame) || !takeFrame(peer, frame)) {
      fail({.reason = Reason::PROTOCOL,
            .culprits = {peer},
            .reporter = rank_,
            .seq = 0,
            .text = str("what rank ", world(peer), " has sent makes no sense")});
      return;
    }
  }
}

/// False when it makes no sense.
bool Mail::takeFrame(int peer, const Frame& frame) {
  return frame.kind == FrameKind::MESSAGE || frame.kind == FrameKind::OFFER
             ? takeMessage(peer, frame)
             : takeNumbered(peer, frame);
}

/// Takes the frame out of its pipe.
void Mail::take(int peer, const Frame& frame, std::byte* into) {
  if (line(peer).in.take(frame, into)) {
    carrier_.ring(peer);
  }
}

bool Mail::takeMessage(int peer, const Frame& frame) {
  if (const ParcelPtr parcel = match(peer, frame)) {
    if (!fits(peer, frame, *parcel)) {
      return true;  // which has ended the group
    }
    take(peer, frame, parcel->data);
    if (frame.kind == FrameKind::MESSAGE) {
      over(parcel, peer);
    } else {
      fetch(peer, frame, parcel);
    }
    return true;
  }
  // Twice: what was on its way when the peer was told is no offence.
  if (line(peer).kept > 2 * kMostKept) {
    return false;
  }
  keep(peer, frame);
  return true;
}

/// Takes a message out that nobody has asked for.
void Mail::keep(int peer, const Frame& frame) {
  const bool isWhole = frame.kind == FrameKind::MESSAGE;
  Early early{.source = peer, .frame = frame, .bytes = {}};
  early.bytes.resize(isWhole ? frame.bytes : 0);
  early_.push_back(std::move(early));
  take(peer, frame, early_.back().bytes.data());
  if (isWhole) {
    line(peer).kept += frame.bytes + kKeepingOne;
    line(peer).in.tellKept(line(peer).kept);
  }
}

bool Mail::takeNumbered(int peer, const Frame& frame) {
  if (frame.kind != FrameKind::PART) {
    return takeAnswer(peer, frame);
  }
  const auto room = roomFor(peer, frame.number);
  if (!room || frame.bytes > room->size()) {
    return false;
  }
  take(peer, frame, room->data());
  received(peer, frame.number, frame.bytes);
  return true;
}

/// To an offer.
bool Mail::takeAnswer(int peer, const Frame& frame) {
  Line& to = line(peer);
  auto found = to.offered.extract(frame.number);
  if (found.empty()) {
    return false;
  }
  take(peer, frame, nullptr);
  if (frame.kind == FrameKind::TAKEN) {
    over(found.mapped(), rank_);
    return true;
  }
  to.streaming.emplace_back(frame.number, std::move(found.mapped()));
  if (carries_) {
    carrier_.ring(peer);  // it is for the carrier now
  }
  return true;
}

std::optional<std::span<std::byte>> Mail::roomFor(int peer, std::uint64_t number) {
  const Line& from = line(peer);
  const auto found = from.incoming.find(number);
  if (found == from.incoming.end()) {
    return std::nullopt;
  }
  const Parcel& parcel = *found->second;
  return std::span(parcel.data + parcel.moved_, parcel.bytes - parcel.moved_);
}

void Mail::received(int peer, std::uint64_t number, std::size_t bytes) {
  Line& from = line(peer);
  const auto found = from.incoming.find(number);
  Parcel& parcel = *found->second;
  parcel.moved_ += bytes;
  if (parcel.moved_ == parcel.bytes) {
    over(found->second, peer);
    from.incoming.erase(found);
  }
}

/// Whoever asked first for such a message.
ParcelPtr Mail::match(int source, const Frame& frame) {
  const auto found = std::find_if(wanted_.begin(), wanted_.end(), [&](const ParcelPtr& parcel) {
    return isFor(*parcel, source, frame);
  });
  if (found == wanted_.end()) {
    return nullptr;
  }
  ParcelPtr parcel = std::move(*found);
  wanted_.erase(found);
  return parcel;
}

bool Mail::matchEarly(const ParcelPtr& parcel) {
  const auto found = std::find_if(early_.begin(), early_.end(), [&](const Early& early) {
    return isFor(*parcel, early.source, early.frame);
  });
  if (found == early_.end()) {
    return false;
  }
  const Early early = std::move(*found);
  early_.erase(found);
  if (!fits(early.source, early.frame, *parcel)) {
    return true;
  }
  if (early.frame.kind == FrameKind::MESSAGE) {
    Line& from = line(early.source);
    from.kept -= early.frame.bytes + kKeepingOne;
    from.in.tellKept(from.kept);
    std::copy(early.bytes.begin(), early.bytes.end(), parcel->data);
    over(parcel, early.source);
  } else {
    fetch(early.source, early.frame, parcel);
  }
  return true;
}

/// Ends the group when the message is not as long as what it is for.
bool Mail::fits(int source, const Frame& frame, const Parcel& parcel) {
  if (frame.bytes == parcel.bytes) {
    return true;
  }
  fail({.reason = Reason::MISMATCH,
        .culprits = {source},
        .reporter = rank_,
        .seq = parcel.seq,
        .text = str("rank ", world(source), " sends ", frame.bytes, " bytes with tag ", frame.tag,
                    ", but rank ", world(rank_), " receives ", parcel.bytes)});
  return false;
}

/// Gets the bytes of an offered message.
void Mail::fetch(int source, const Frame& offer, const ParcelPtr& parcel) {
  parcel->source_ = source;
  if (!open(line(source).out, rank_, source, parcel->deadline)) {
    return;
  }
  if (carrier_.isReadable(source)) {
    pulls_.push_back({source, offer, parcel});
  } else {
    stream(source, offer, parcel);
  }
}

/// Asks the sender for them.
void Mail::stream(int source, const Frame& offer, const ParcelPtr& parcel) {
  Line& from = line(source);
  parcel->moved_ = 0;
  from.incoming.emplace(offer.number, parcel);
  from.answers.push_back({.kind = FrameKind::TAKE, .number = offer.number});
}

/// Reads the next piece of the message that has been read longest.
void Mail::pullSome() {
  if (pulls_.empty()) {
    return;
  }
  const Pull pull = pulls_.front();
  Parcel& parcel = *pull.parcel;
  const std::span piece{parcel.data + parcel.moved_, std::min(parcel.bytes - parcel.moved_, kPull)};
  if (!carrier_.read(pull.source, pull.offer.address + parcel.moved_, piece)) {
    pulls_.pop_front();
    stream(pull.source, pull.offer, pull.parcel);  // if it has died, that will be found out
    return;
  }
  parcel.moved_ += piece.size();
  if (parcel.moved_ == parcel.bytes && !record_.isSet()) {
    pulls_.pop_front();
    line(pull.source).answers.push_back({.kind = FrameKind::TAKEN, .number = pull.offer.number});
    send(pull.source);
    over(pull.parcel, pull.source);
  }
}

void Mail::over(const ParcelPtr& parcel, int source, std::exception_ptr failure) {
  parcel->isOver_ = true;
  ends_.push_back({parcel, source, std::move(failure)});
  open_.erase(parcel.get());
}

}  // namespace unisono
