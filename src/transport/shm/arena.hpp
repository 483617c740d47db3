// Arena: a group's shared memory, as the algorithms of collectives see it.
//
// An operation is opened with begin() and closed with end(). In between a rank fills slots of its
// own, says that it has arrived, waits for the arrival of others and reads their slots. What lies
// in registered memory needs no slots: its rank announces the place, and others go there. So does
// what lies anywhere, where ranks can read each other's memory; who then cannot asks for slots.
//
// Slots come in two sets, for operations of even and odd number. A rank that fills some begins
// operation k only when everybody has finished k - 2 (which it usually knows: who has been heard in
// k - 1 has finished k - 2), so the set it fills is read by nobody any more. One that fills none
// hears one that does. Long operations go through a few slots in rounds.
//
// Thread safety: one thread at a time, the one that drives the group's operations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "transport/shm/peer_memory.hpp"
#include "transport/shm/peer_wait.hpp"
#include "transport/shm/registered_memory.hpp"

namespace unisono::shm {

/// What a rank says of an operation before it does anything.
struct Announcement {
  std::string_view name = {};   // of something that stays
  std::uint32_t signature = 0;  // of what all ranks must agree on
  std::uint8_t opType = 0;
  std::uint8_t dtype = 0;
  std::uint8_t reduceOp = 0;
  std::uint8_t algorithm = 0;  // by which this rank carries it out; 0: there is only one
  std::int32_t root = -1;
  std::uint64_t count = 0;
  Milliseconds timeout{};
  bool gives = true;  // false: it fills neither slots nor lines, and only hears others
  Place place = {};   // of what this rank gives, if others may go there
};

struct ArenaOptions {
  int cores = 1;                 // that the group's ranks may use
  std::vector<int> globalRanks;  // by rank in the group
  PeerWait::Describe describe = nullptr;
};

class Arena {
 public:
  Arena(Segment& segment, ArenaOptions options);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  bool isCrowded() const noexcept { return wait_.isCrowded(); }
  std::uint64_t seq() const noexcept { return seq_; }
  PeerWait& wait() noexcept { return wait_; }

  /// Opens the next operation. Throws what ended the group, if something did.
  void begin(const Announcement& what);

  /// Closes it. `heardAll`: everybody's arrival was awaited, so everybody has begun it.
  void end(bool heardAll) noexcept;

  // --- slots, filled by their rank and read by others ---

  /// Readies slots of `chunk` bytes each for this operation; `kSmallSlot` bytes at most, and one
  /// round, need no ring. The first call that needs one makes it.
  void useSlots(std::size_t chunk, std::size_t rounds);
  std::byte* slot(int rank, std::size_t round) const noexcept {
    return slots_ + static_cast<std::size_t>(rank) * slotsPerRank_ + (round % depth_) * chunk_;
  }
  std::size_t depth() const noexcept { return depth_; }
  /// The largest chunk that a ring of this group has room for.
  std::size_t mostChunk() const noexcept { return mostChunk_; }

  /// Returns when nobody reads any more what was in this rank's slot of `round` before.
  void awaitRoom(std::size_t round);
  /// This rank's slot of `round` may be read.
  void arrive(std::size_t round) { wait_.publish(mine_.arrival.position, at(round)); }
  /// Returns when rank `peer` has filled its slot of `round`; throws when it does something else.
  void awaitArrival(int peer, std::size_t round) {
    const Arrival& arrival = segment_.block(peer).arrival;
    const Position wanted = at(round);
    // Acquire: what the peer wrote before it arrived.
    wait_.until(peer,
                [&] { return reached(arrival.position.load(std::memory_order_acquire), wanted); });
    checkSignature(peer);
  }
  /// The same, but only until `deadline`; whether it has. A deadline that passes ends nothing.
  bool awaitArrival(int peer, std::size_t round, const Deadline& deadline);
  /// This rank has read everybody's slots of `round`.
  void release(std::size_t round) { wait_.publish(mine_.done, at(round)); }

  /// The same for results that were put into slots after everybody had arrived.
  void publishResult(std::size_t round) { wait_.publish(mine_.reduced, at(round)); }
  void awaitResult(int peer, std::size_t round) {
    const std::atomic<Position>& reduced = segment_.block(peer).reduced;
    const Position wanted = at(round);
    wait_.until(peer, [&] { return reached(reduced.load(std::memory_order_acquire), wanted); });
  }

  // --- data that others go to where it is ---

  RegisteredMemory& registered() noexcept { return registered_; }
  /// Whether all ranks can read each other's memory, as far as is known. Until every rank has asked
  /// that, and when one could not, they cannot.
  bool canPull() noexcept;
  /// Whether others go to where this rank's data is: it was announced with its place.
  bool isReachable() const noexcept { return place_.block != 0; }
  /// The same, and it is not registered.
  bool isPulled() const noexcept { return place_.block == kOwnMemory; }
  /// This rank's data may be read, or written, where it is. Before any slot of its is filled.
  void arriveInPlace() { wait_.publish(mine_.arrival.position, positionOf(seq_, 1)); }
  /// Where the data of rank `peer` is, once it has arrived; nowhere if it has filled a slot.
  Place awaitPlace(int peer);
  /// The same of one that has arrived, whatever it has filled.
  Place placeOf(int peer) const noexcept {
    const Post& post = segment_.block(peer).posts[seq_ % kPosts];
    return {.block = post.block, .offset = post.offset};
  }
  /// Where `bytes` registered bytes of rank `peer` are. Throws when it has none there.
  std::byte* reach(int peer, Place place, std::size_t bytes);
  /// Brings what rank `peer` has at an address of its own, so far as it can be read there; false
  /// when it cannot. Throws what ends the group meanwhile: before that, it was what the peer gave.
  [[nodiscard]] bool pull(int peer, std::uint64_t address, std::span<std::byte> into);
  /// This rank has done with the data of all others, wherever it was; before end().
  void leaveAll() { wait_.publish(mine_.done, positionOf(seq_ + 1, 0)); }
  /// The same, but this rank stays: others may read its memory, or it has asked for slots.
  void leaveAndStay() { wait_.publish(mine_.done, at(kAgain - 1)); }
  /// What could not be pulled must come by slots, from round kAgain on; before leaveAndStay().
  void askForSlots() { wait_.publish(mine_.reduced, positionOf(seq_, 1)); }
  /// Returns when nobody goes to this rank's data any more; false if somebody has asked for slots.
  bool awaitAllLeft();
  /// After an error: ends the group if an operation is open. What this rank has given of it may
  /// change or stay out, and its next operation would look to the others as if it had finished this
  /// one.
  void abandon() noexcept;
  /// Throws what ended the group, if something did: before others' memory is written to, and after
  /// it was read.
  void checkAlive() { wait_.checkFailed(); }

  // --- lines, in which data and flag travel together ---

  /// Fills line `index` of this rank; the last one of an operation wakes who sleeps.
  void sendLine(std::size_t index, const std::byte* from, std::size_t bytes, bool isLast) {
    LlLine& line = segment_.llArea(rank_).lines[seq_ & 1U][index];
    if (bytes > 0) {
      std::memcpy(line.payload, from, bytes);
    }
    line.signature = wait_.operation().signature;
    if (!isLast) {
      line.seq.store(lineSeq(), std::memory_order_release);
      return;
    }
    // As in PeerWait::publish().
    line.seq.exchange(lineSeq(), std::memory_order_seq_cst);
    wait_.ringAll();
  }
  /// Line `index` of rank `peer`, once it is there.
  const std::byte* awaitLine(int peer, std::size_t index) {
    const LlLine& line = segment_.llArea(peer).lines[seq_ & 1U][index];
    const std::uint32_t wanted = lineSeq();
    wait_.until(peer, [&] { return line.seq.load(std::memory_order_acquire) == wanted; });
    if (line.signature != wait_.operation().signature) [[unlikely]] {
      wait_.throwMismatch(peer);
    }
    return line.payload;
  }
  /// The same of a peer that may have sent no such line, but then fills a slot: null when it has
  /// filled its first one. Where the line is `expected` it is not null if there is a line, too.
  const std::byte* awaitLineOrSlot(int peer, std::size_t index, bool expected) {
    const LlLine& line = segment_.llArea(peer).lines[seq_ & 1U][index];
    const std::atomic<Position>& arrived = segment_.block(peer).arrival.position;
    const std::uint32_t wanted = lineSeq();
    const Position filled = at(0);
    const auto isSent = [&] { return line.seq.load(std::memory_order_acquire) == wanted; };
    const auto isFilled = [&] { return reached(arrived.load(std::memory_order_acquire), filled); };
    // First only at what usually comes: looking at a word that its rank writes in every operation
    // makes that write a dear one.
    if (!wait_.soon([&] { return expected ? isSent() : isFilled(); })) {
      wait_.until(peer, [&] { return isSent() || isFilled(); });
    }
    // Lines are sent before slots are filled: who has seen that one is filled sees the line, too.
    if ((expected || !isFilled()) && isSent()) {
      return awaitLine(peer, index);
    }
    checkSignature(peer);
    return nullptr;
  }

  // --- the last one does the work ---

  /// Says that this rank's slot is filled; true for the last to come, when all others wait.
  bool gather();
  /// The last one: the result is in resultSlot().
  void publishGathered() { wait_.publish(segment_.header().finished, positionOf(seq_, 1)); }
  void awaitGathered();
  std::byte* resultSlot() const noexcept { return segment_.results().bytes[seq_ & 1U]; }

 private:
  /// Of a rank that has arrived: has it called the same as this one?
  void checkSignature(int peer) {
    if (segment_.block(peer).arrival.signature[seq_ % kPosts].load(std::memory_order_relaxed) !=
        wait_.operation().signature) [[unlikely]] {
      wait_.throwMismatch(peer);
    }
  }
  /// The position of a rank whose slot of `round` is filled. The first is for those without.
  Position at(std::size_t round) const noexcept { return positionOf(seq_, round + 2); }
  void makeRing();
  void stopPulling() noexcept;
  void awaitFinished(std::uint64_t seq);
  void lookWhoFinished(std::uint64_t seq) noexcept;
  void forgetLines() noexcept;
  /// Never 0, which is what lines hold at first.
  std::uint32_t lineSeq() const noexcept {
    return static_cast<std::uint32_t>(seq_ & kLineSeqMask) | 0x8000'0000U;
  }
  static constexpr std::uint64_t kLineSeqMask = 0x7FFF'FFFFU;

  Segment& segment_;
  const int rank_;
  const int size_;
  RankBlock& mine_;
  PeerWait wait_;
  RegisteredMemory registered_;
  PeerMemory memory_;
  enum class Reader : std::uint8_t { UNTRIED, COUNTED, NONE };
  Reader reader_ = Reader::UNTRIED;
  const std::size_t mostChunk_;
  std::uint64_t seq_ = 0;
  bool open_ = false;  // begun and not ended
  bool gives_ = false;
  Place place_;
  std::uint64_t allFinished_ = 0;  // everybody is known to have finished this operation
  std::span<std::byte> ring_;
  std::byte* slots_ = nullptr;
  std::size_t slotsPerRank_ = 0;
  std::size_t chunk_ = 0;
  std::size_t depth_ = 1;
};

}  // namespace unisono::shm
