// Layout: what the ranks of a group on one host share, byte for byte.
//
//   header · one RankBlock per rank · one LlArea per rank · one small slot pair per rank, and one
//   for results
//
// Every word has one writing side (the abort record has the first that comes). Words that peers
// read while waiting are 128 bytes apart, because processors fetch neighbouring lines together.
// docs/wire/shm_layout.md describes the same in prose.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/host.hpp"
#include "life/abort_record.hpp"
#include "life/life_word.hpp"
#include "transport/shm/door.hpp"
#include "transport/shm/pipe.hpp"

namespace unisono::shm {

inline constexpr char kMagic[8] = {'U', 'N', 'I', 'S', 'H', 'M', '0', '1'};
inline constexpr std::uint32_t kVersion = 7;
inline constexpr int kMostRanks = 1024;

/// A moment in the life of a group, as counted by one rank: operation, and round within it.
/// Positions are compared by signed difference, so they may wrap.
using Position = std::uint64_t;
inline constexpr int kRoundBits = 24;
/// The rounds from here on are for what could not be read where it lies.
inline constexpr std::size_t kAgain = std::size_t{1} << (kRoundBits - 1);
constexpr Position positionOf(std::uint64_t seq, std::uint64_t round) noexcept {
  return (seq << kRoundBits) + round;
}
constexpr bool reached(Position position, Position wanted) noexcept {
  return static_cast<std::int64_t>(position - wanted) >= 0;
}

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t ranks;
  std::uint64_t bytes;
  char cookie[32];
  std::uint32_t ringChunk;  // bytes of a slot of the ring; less than usual where memory is scarce
  std::uint32_t cores;      // that the ranks may use together; there once the group is formed
  alignas(128) std::atomic<std::uint32_t> formed;  // 1 once every rank is live
  std::atomic<std::uint32_t> readers;              // ranks that can read the memory of all others
  alignas(128) AbortRecord abort;
  // Small operations of many ranks, by parity: how many have come (low 16 bits), and the sum of
  // their signatures (the rest).
  alignas(128) std::atomic<std::uint64_t> gathered[2];
  alignas(128) std::atomic<Position> finished;  // the last one has put the result there
};
static_assert(sizeof(Header) == 1152);

/// How far a rank has come in joining and leaving.
enum class RankState : std::uint32_t { EMPTY, JOINING, LIVE, LEAVING, LEFT };

/// Who a rank is. Written by rank 0's monitor before the rank knows of the memory.
struct Identity {
  std::atomic<std::uint32_t> state;
  std::int32_t pid;
  std::uint64_t startTicks;
  std::uint64_t pidNamespace;
};

/// A random word in a rank's own memory, and where it is there: who can read it there reads the
/// right process.
struct ProofWord {
  std::atomic<std::uint64_t> address;  // 0: not yet
  std::uint64_t value[2];
};

/// Where others find what a rank gives: in its registered memory, or where it lies in its process.
inline constexpr std::uint32_t kOwnMemory = UINT32_MAX;
struct Place {
  std::uint32_t block = 0;   // its number; kOwnMemory: in none; 0: nowhere, it comes by slots
  std::uint64_t offset = 0;  // in its block, or its address
};

/// Where to ask for what a rank itself has made: there before the rank is live.
struct Desk {
  char socket[64];  // of its monitor, then zeros
  char inbox[32];   // the cookie for its inbox
};

/// The registered memory of a rank: by which cookie to ask for it, and which blocks there are.
inline constexpr std::size_t kMostBlocks = 256;
struct BlockList {
  char cookie[32];                               // written before the first place is announced
  std::atomic<std::uint32_t> live[kMostBlocks];  // by number modulo kMostBlocks; 0: none
};

/// What a rank is doing, told before it does anything: for those who find that it is something
/// else than what they do, and for those who tell a person whom they wait for.
struct alignas(64) Post {
  std::atomic<std::uint64_t> seq;  // written last
  std::uint32_t call;              // hash of what all ranks must agree on
  std::uint8_t opType;
  std::uint8_t dtype;
  std::uint8_t reduceOp;
  std::uint8_t algorithm;  // 0: there is only one
  std::int32_t root;
  std::uint32_t block;   // of its place
  std::uint64_t count;   // elements
  std::uint64_t offset;  // of its place
};
static_assert(sizeof(Post) == 64);
inline constexpr std::uint64_t kPosts = 8;  // nobody is further ahead of another

/// Arrival: how far this rank's data may be read, and of which operations it is.
struct Arrival {
  std::atomic<Position> position;
  std::atomic<std::uint32_t> signature[kPosts];  // of all calls so far; by seq modulo kPosts
};

struct RankBlock {
  LifeWord life;
  alignas(64) Identity identity;
  ProofWord proof;
  alignas(128) Door door;      // where the thread sleeps that drives collectives
  alignas(128) Door mailDoor;  // where the one sleeps that sends and receives
  alignas(128) Arrival arrival;
  alignas(128) std::atomic<Position> reduced;  // its results may be read up to here
  alignas(128) std::atomic<Position> done;     // it has read everybody's data up to here
  alignas(128) Post posts[kPosts];
  alignas(128) BlockList blocks;
  Desk desk;
  alignas(128) CpuShare cpus;  // there before the rank is live
};
static_assert(sizeof(RankBlock) == 128 + 5 * 128 + kPosts * 64 + 1152 + 128);

/// A line whose last word says whether the rest is there: data and flag travel together.
struct alignas(64) LlLine {
  static constexpr std::size_t kPayload = 56;
  std::byte payload[kPayload];
  std::uint32_t signature;
  std::atomic<std::uint32_t> seq;
};
static_assert(sizeof(LlLine) == 64);

inline constexpr std::size_t kLlLines = 74;  // 4,144 bytes of payload
struct LlArea {
  LlLine lines[2][kLlLines];  // by parity of the operation's number
};

/// Room for small operations, by parity.
inline constexpr std::size_t kSmallSlot = 4096;
struct SmallSlots {
  alignas(128) std::byte bytes[2][kSmallSlot];
};

/// More memory, made when it is first needed: by rank 0 the ring of long collectives, and by each
/// rank the pipes from all ranks to it.
inline constexpr std::uint32_t kRingExtension = 1;
inline constexpr std::uint32_t kFirstInbox = 2;

/// The ring: for each rank two halves, by parity of the operation, of so many slots.
inline constexpr std::size_t kRingDepth = 4;
inline constexpr std::size_t kLeastChunk = 16U << 10U;
constexpr std::size_t ringBytes(std::size_t ranks, std::size_t chunk) noexcept {
  return ranks * 2 * kRingDepth * chunk;
}
/// The size of its slots where there is memory enough: 1 MiB per rank for two ranks; above that
/// less, so that many ranks do not need much.
constexpr std::size_t usualChunk(std::size_t ranks) noexcept {
  constexpr std::size_t kKiB = 1024;
  if (ranks <= 2) {
    return 128 * kKiB;
  }
  return std::clamp(4096 / ranks * kKiB, kLeastChunk, 64 * kKiB);
}

/// Where things are in a segment of `ranks` ranks.
struct Layout {
  std::size_t ranks;

  std::size_t blocks() const noexcept { return sizeof(Header); }
  std::size_t lines() const noexcept { return blocks() + ranks * sizeof(RankBlock); }
  std::size_t smallSlots() const noexcept { return lines() + ranks * sizeof(LlArea); }
  std::size_t bytes() const noexcept {
    constexpr std::size_t kPage = 4096;
    const std::size_t end = smallSlots() + (ranks + 1) * sizeof(SmallSlots);
    return (end + kPage - 1) / kPage * kPage;
  }

  // --- extensions ---

  /// The rank that makes it.
  static int ownerOf(std::uint32_t number) noexcept {
    return number == kRingExtension ? 0 : static_cast<int>(number - kFirstInbox);
  }

  std::size_t inboxBytes() const noexcept { return ranks * pipeBytes(ranks); }
  /// 0: there is no such extension.
  std::size_t extensionBytes(std::uint32_t number, std::size_t ringChunk) const noexcept {
    return number == kRingExtension                                ? ringBytes(ranks, ringChunk)
           : number >= kFirstInbox && number - kFirstInbox < ranks ? inboxBytes()
                                                                   : 0;
  }
};

}  // namespace unisono::shm
