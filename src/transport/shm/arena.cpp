#include "transport/shm/arena.hpp"

#include <new>
#include <utility>

#include "base/check.hpp"
#include "base/str.hpp"

namespace unisono::shm {
namespace {

/// Read at once: little enough that the end of the group is soon noticed. Smaller pieces take
/// longer.
constexpr std::size_t kPull = std::size_t{1} << 20U;

constexpr std::uint32_t kMixer = 0x9E37'79B1U;  // odd: different calls stay different

/// What rank 0 has decided, unless that cannot be.
std::size_t chunkOf(const Segment& segment) {
  const std::size_t chunk = segment.header().ringChunk;
  const std::size_t most = usualChunk(static_cast<std::size_t>(segment.size()));
  if (chunk < kLeastChunk || chunk > most || chunk % 1024 != 0) {
    throw DistError({.reason = Reason::PROTOCOL,
                     .what = str("rank 0 made a ring with slots of ", chunk, " bytes"),
                     .hint = "all ranks must run the same version of unisono",
                     .group = segment.group()});
  }
  return chunk;
}

}  // namespace

Arena::Arena(Segment& segment, ArenaOptions options)
    : segment_(segment),
      rank_(segment.rank()),
      size_(segment.size()),
      mine_(segment.block(segment.rank())),
      wait_(segment, options.cores, std::move(options.globalRanks), options.describe),
      registered_(segment),
      memory_(segment, "large blocks are"),
      mostChunk_(chunkOf(segment)) {}

void Arena::begin(const Announcement& what) {
  seq_ += 1;
  open_ = true;
  // Ranks that go different ways would wait for each other: the way is part of the call.
  const std::uint32_t call = what.signature + what.algorithm * kMixer;
  Operation& operation = wait_.operation();
  operation.seq = seq_;
  operation.call = call;
  operation.signature = (operation.signature ^ call) * kMixer + 1;
  operation.name = what.name;
  operation.timeout = what.timeout;
  operation.deadline.reset();
  wait_.checkFailed();

  Post& post = mine_.posts[seq_ % kPosts];
  post.call = call;
  post.opType = what.opType;
  post.dtype = what.dtype;
  post.reduceOp = what.reduceOp;
  post.algorithm = what.algorithm;
  post.root = what.root;
  post.count = what.count;
  post.block = what.place.block;
  post.offset = what.place.offset;
  place_ = what.place;
  // Release: who sees the number also sees the rest.
  post.seq.store(seq_, std::memory_order_release);
  // Read by others after they have seen this rank's position, which is published later.
  mine_.arrival.signature[seq_ % kPosts].store(operation.signature, std::memory_order_relaxed);

  // Nobody is ever more than two operations ahead of another: see the top of arena.hpp.
  const bool forgets = (seq_ & kLineSeqMask) >= kLineSeqMask - 1;
  gives_ = what.gives;
  const std::uint64_t before = seq_ < 2 ? 0 : seq_ - 2;
  if ((gives_ || forgets) && allFinished_ < before) {
    awaitFinished(before);
  }
  if (forgets) [[unlikely]] {
    forgetLines();
  }
}

/// The numbers in lines are about to start again: what is there now must not be taken for new.
void Arena::forgetLines() noexcept {
  for (LlLine& line : segment_.llArea(rank_).lines[seq_ & 1U]) {
    line.seq.store(0, std::memory_order_relaxed);
  }
}

void Arena::end(bool heardAll) noexcept {
  const Position finished = positionOf(seq_ + 1, 0);
  place_ = {};
  open_ = false;
  if (heardAll) {
    // Who has begun an operation has finished the one before.
    allFinished_ = seq_ - 1;
    // Nobody waits for this word soon: whoever does sees it at the latest in its next slice.
    mine_.done.store(finished, std::memory_order_release);
  } else {
    wait_.publish(mine_.done, finished);
    if (gives_) {
      // While the others are still busy with what this rank gave: the next one will need it.
      lookWhoFinished(seq_ - 1);
    }
  }
}

void Arena::lookWhoFinished(std::uint64_t seq) noexcept {
  for (int peer = 0; peer < size_; ++peer) {
    const Position done = segment_.block(peer).done.load(std::memory_order_acquire);
    if (!reached(done, positionOf(seq + 1, 0))) {
      return;
    }
  }
  allFinished_ = seq;
}

void Arena::awaitFinished(std::uint64_t seq) {
  for (int peer = 0; peer < size_; ++peer) {
    const std::atomic<Position>& done = segment_.block(peer).done;
    if (peer != rank_) {
      wait_.until(peer, [&] {
        return reached(done.load(std::memory_order_acquire), positionOf(seq + 1, 0));
      });
    }
  }
  allFinished_ = seq;
}

void Arena::useSlots(std::size_t chunk, std::size_t rounds) {
  if (chunk <= kSmallSlot && rounds <= 1) {
    slots_ = segment_.smallSlots(0).bytes[seq_ & 1U];
    slotsPerRank_ = sizeof(SmallSlots);
    chunk_ = kSmallSlot;
    depth_ = 1;
    return;
  }
  UNISONO_DCHECK(chunk <= mostChunk_);
  if (ring_.empty()) [[unlikely]] {
    makeRing();
  }
  const std::size_t half = kRingDepth * mostChunk_;
  slots_ = ring_.data() + (seq_ & 1U) * half;
  slotsPerRank_ = 2 * half;
  chunk_ = chunk;
  depth_ = kRingDepth;
}

void Arena::makeRing() {
  try {
    ring_ = segment_.extend(kRingExtension, Deadline::after(wait_.operation().timeout));
  } catch (const DistError& error) {
    wait_.throwCauseHere(wait_.fail({.reason = error.reason(),
                                     .culprits = {rank_},
                                     .reporter = rank_,
                                     .seq = seq_,
                                     .text = error.facts().what}));
  }
  if (ring_.empty()) {
    wait_.checkFailed();
    wait_.throwCauseHere(wait_.fail(segment_.silenceOfOwner(kRingExtension)));
  }
}

bool Arena::awaitArrival(int peer, std::size_t round, const Deadline& deadline) {
  const std::atomic<Position>& position = segment_.block(peer).arrival.position;
  const Position wanted = at(round);
  // Acquire: what the peer wrote before it arrived.
  const bool arrived = wait_.untilOr(
      peer, deadline, [&] { return reached(position.load(std::memory_order_acquire), wanted); });
  if (arrived) {
    checkSignature(peer);
  }
  return arrived;
}

Place Arena::awaitPlace(int peer) {
  const Arrival& arrival = segment_.block(peer).arrival;
  const Position wanted = positionOf(seq_, 1);
  Position position = 0;
  wait_.until(peer, [&] {
    position = arrival.position.load(std::memory_order_acquire);
    return reached(position, wanted);
  });
  checkSignature(peer);
  // One whose data is reached where it is fills no slot before everybody has left: its post is a
  // line more to fetch.
  return position == wanted ? placeOf(peer) : Place{};
}

std::byte* Arena::reach(int peer, Place place, std::size_t bytes) {
  try {
    return registered_.reach(peer, place, bytes, Deadline::after(wait_.operation().timeout)).data();
  } catch (const DistError& error) {
    wait_.checkFailed();
    wait_.throwCauseHere(wait_.fail({.reason = error.reason(),
                                     .culprits = {peer},
                                     .reporter = rank_,
                                     .seq = seq_,
                                     .text = error.facts().what}));
  }
}

bool Arena::canPull() noexcept {
  if (reader_ == Reader::UNTRIED) [[unlikely]] {
    reader_ = Reader::COUNTED;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_ && !memory_.isReadable(peer)) {
        reader_ = Reader::NONE;
        break;
      }
    }
    if (reader_ == Reader::COUNTED) {
      segment_.header().readers.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return segment_.header().readers.load(std::memory_order_relaxed) ==
             static_cast<std::uint32_t>(size_) &&
         size_ > 1;
}

bool Arena::pull(int peer, std::uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const std::span<std::byte> piece = into.first(std::min(into.size(), kPull));
    if (!memory_.isReadable(peer) || !memory_.read(peer, address, piece)) {
      stopPulling();
      return false;
    }
    wait_.checkFailed();
    address += piece.size();
    into = into.subspan(piece.size());
  }
  return true;
}

/// For the whole group: one that cannot is enough.
void Arena::stopPulling() noexcept {
  if (std::exchange(reader_, Reader::NONE) == Reader::COUNTED) {
    segment_.header().readers.fetch_sub(1, std::memory_order_relaxed);
  }
}

bool Arena::awaitAllLeft() {
  bool asked = false;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) {
      continue;
    }
    const RankBlock& block = segment_.block(peer);
    wait_.until(
        peer, [&] { return reached(block.done.load(std::memory_order_acquire), at(kAgain - 1)); });
    // In this order: what a rank that has not finished has asked for is of this operation.
    const Position reduced = block.reduced.load(std::memory_order_acquire);
    const Position done = block.done.load(std::memory_order_acquire);
    asked =
        asked || (reached(reduced, positionOf(seq_, 1)) && !reached(done, positionOf(seq_ + 1, 0)));
  }
  return !asked;
}

void Arena::abandon() noexcept {
  if (!std::exchange(open_, false)) {
    return;
  }
  AbortCause cause;
  cause.reporter = rank_;
  cause.seq = seq_;
  try {
    cause.culprits = {rank_};
    cause.text =
        str(wait_.nameOf(rank_), " has left ", wait_.operation().name, " before it was over");
  } catch (const std::bad_alloc&) {
    // Without a text, then: that it is over counts more than why.
  }
  wait_.fail(std::move(cause));
}

void Arena::awaitRoom(std::size_t round) {
  if (round < depth_) {
    return;  // begin() has seen to it
  }
  const Position wanted = at(round - depth_);
  for (int peer = 0; peer < size_; ++peer) {
    const std::atomic<Position>& done = segment_.block(peer).done;
    if (peer != rank_) {
      wait_.until(peer, [&] { return reached(done.load(std::memory_order_acquire), wanted); });
    }
  }
}

bool Arena::gather() {
  std::atomic<std::uint64_t>& gathered = segment_.header().gathered[seq_ & 1U];
  const std::uint64_t signature = wait_.operation().signature;
  const auto all = static_cast<std::uint64_t>(size_);
  // Acquire and release: the last one sees what all before it have put into their slots.
  const std::uint64_t sum = gathered.fetch_add((signature << 16U) + 1, std::memory_order_acq_rel) +
                            (signature << 16U) + 1;
  if ((sum & 0xFFFFU) != all) {
    return false;
  }
  gathered.store(0, std::memory_order_relaxed);
  if (sum >> 16U != (signature * all & 0xFFFF'FFFF'FFFFU)) [[unlikely]] {
    for (int peer = 0; peer < size_; ++peer) {
      checkSignature(peer);
    }
  }
  return true;
}

void Arena::awaitGathered() {
  const std::atomic<Position>& finished = segment_.header().finished;
  const Position wanted = positionOf(seq_, 1);
  // Whoever is last: the next rank stands for all, and every few looks all are looked at.
  wait_.until((rank_ + 1) % size_,
              [&] { return reached(finished.load(std::memory_order_acquire), wanted); });
}

}  // namespace unisono::shm
