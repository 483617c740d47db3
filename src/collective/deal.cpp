#include <cstring>

#include "base/str.hpp"
#include "collective/block_flow.hpp"
#include "collective/blocks.hpp"
#include "collective/shares.hpp"

namespace unisono {
namespace {

constexpr std::size_t kPayload = shm::LlLine::kPayload;

/// A block of its own for each. The slot of a round begins with a table of the sizes of all blocks,
/// so that a taker who expects another size finds out before it reads; then follow the pieces, or
/// where they can be pulled from. The sizes are marked where no pieces follow.
///
/// Small blocks go by lines instead, each in lines of its taker, of which the first begins with the
/// block's size. Only giver and taker need to know that a block is small. When they disagree the
/// taker still learns it: it looks for the line and for the slot.
class Deal {
 public:
  static constexpr bool kHasTable = true;

  Deal(shm::Arena& arena, std::span<const ConstBlock> give, std::span<const Block> take,
       std::size_t mostByLines)
      : arena_(arena),
        give_(give),
        take_(take),
        linesOfTaker_(roundsFor(sizeof(std::uint64_t) + mostByLines, kPayload)),
        mostByLines_(mostByLines) {
    const std::size_t largest = std::max(largestBlock(give), largestBlock(take));
    if (!goesByLines(largest)) {
      useSlots();
      rounds_ = std::max<std::size_t>(roundsFor(largest, piece_), 1);
    }
  }

  /// Sends what goes by lines; whether something else goes by slots.
  bool sendLines() {
    std::size_t others = give_.size() - 1;
    bool all = true;
    for (std::size_t peer = 0; mostByLines_ > 0 && peer < give_.size(); ++peer) {
      if (peer == me()) {
        continue;
      }
      others -= 1;
      if (goesByLines(give_[peer].size())) {
        sendLines(peer, others == 0);
      } else {
        all = false;
      }
    }
    return mostByLines_ == 0 || !all;
  }

  std::size_t rounds() const noexcept { return rounds_; }
  bool isLeft(int peer, std::size_t round) const noexcept {
    return block(peer).size() > round * piece_;
  }

  void fill(std::byte* slot, std::size_t round, bool withData) {
    for (std::size_t peer = 0; peer < give_.size(); ++peer) {
      const std::uint64_t size = give_[peer].size();
      write(slot, peer, withData ? size : size | kPlaces);
      if (static_cast<int>(peer) == arena_.rank()) {
        continue;
      }
      const Range part = roundOf(size, piece_, round);
      if (withData) {
        copyBytes(slot + table_ + peer * piece_, give_[peer].data() + part.begin, part.size);
      } else {
        write(slot + table_, peer, reinterpret_cast<std::uint64_t>(give_[peer].data()));
      }
    }
  }

  bool bring(int peer, Fetch& fetch) {
    if (mostByLines_ > 0) {
      const bool expected = goesByLines(block(peer).size());
      if (const std::byte* first = arena_.awaitLineOrSlot(peer, me() * linesOfTaker_, expected)) {
        takeLines(peer, first);
        return true;
      }
      useSlots();  // whatever this rank expects
    }
    arena_.awaitArrival(peer, 0);
    const std::byte* slot = arena_.slot(peer, 0);
    const std::uint64_t entry = read(slot, me());
    checkSize(peer, entry & ~kPlaces);
    if ((entry & kPlaces) == 0) {
      return false;
    }
    shm::Place place = arena_.placeOf(peer);
    if (place.block == shm::kOwnMemory) {
      place.offset = read(slot + table_, me());
    } else if (place.block != 0) {
      for (std::size_t other = 0; other < me(); ++other) {  // one after the other
        place.offset += read(slot, other) & ~kPlaces;
      }
    }
    return fetch.bring(peer, place, block(peer));
  }

  void take(int peer, const std::byte* slot, std::size_t round) {
    checkSize(peer, read(slot, me()));
    const Range part = roundOf(block(peer).size(), piece_, round);
    copyBytes(block(peer).data() + part.begin, slot + table_ + me() * piece_, part.size);
  }
  void copyOwn() { copyOwnBlock(take_[me()], give_[me()]); }

 private:
  /// Marks the sizes of blocks of which no pieces follow.
  static constexpr std::uint64_t kPlaces = std::uint64_t{1} << 63U;

  std::size_t me() const noexcept { return static_cast<std::size_t>(arena_.rank()); }
  const Block& block(int peer) const noexcept { return take_[static_cast<std::size_t>(peer)]; }
  static void write(std::byte* table, std::size_t place, std::uint64_t value) noexcept {
    std::memcpy(table + place * sizeof value, &value, sizeof value);
  }
  static std::uint64_t read(const std::byte* table, std::size_t place) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, table + place * sizeof value, sizeof value);
    return value;
  }

  bool goesByLines(std::size_t bytes) const noexcept {
    return mostByLines_ > 0 && bytes <= mostByLines_;
  }
  void useSlots() {
    if (table_ != 0) {
      return;
    }
    const auto ranks = static_cast<std::size_t>(arena_.size());
    table_ = roundUpToLine(ranks * sizeof(std::uint64_t));
    // The same on all ranks, who know only the sizes of their own blocks.
    piece_ = pieceFor(arena_.mostChunk() - table_, ranks);
    // Always the ring: whether small slots would do, a rank cannot know of the others.
    arena_.useSlots(arena_.mostChunk(), 2);
  }

  /// The part of a block in line `line` of its lines, behind the size in the first.
  static Range partOfLine(std::size_t bytes, std::size_t line) noexcept {
    const Range part = roundOf(sizeof(std::uint64_t) + bytes, kPayload, line);
    return line == 0 ? Range{0, part.size - sizeof(std::uint64_t)}
                     : Range{part.begin - sizeof(std::uint64_t), part.size};
  }
  static std::size_t linesFor(std::size_t bytes) noexcept {
    return roundsFor(sizeof(std::uint64_t) + bytes, kPayload);
  }

  void sendLines(std::size_t peer, bool isLast) {
    const ConstBlock block = give_[peer];
    std::byte first[kPayload];
    write(first, 0, block.size());
    const Range head = partOfLine(block.size(), 0);
    if (head.size > 0) {
      std::memcpy(first + sizeof(std::uint64_t), block.data(), head.size);
    }
    const std::size_t lines = linesFor(block.size());
    const std::size_t begin = peer * linesOfTaker_;
    arena_.sendLine(begin, first, sizeof(std::uint64_t) + head.size, isLast && lines == 1);
    for (std::size_t line = 1; line < lines; ++line) {
      const Range part = partOfLine(block.size(), line);
      arena_.sendLine(begin + line, block.data() + part.begin, part.size,
                      isLast && line + 1 == lines);
    }
  }

  void takeLines(int peer, const std::byte* first) {
    checkSize(peer, read(first, 0));
    const Block into = block(peer);
    const Range head = partOfLine(into.size(), 0);
    if (head.size > 0) {
      std::memcpy(into.data(), first + sizeof(std::uint64_t), head.size);
    }
    for (std::size_t line = 1; line < linesFor(into.size()); ++line) {
      const Range part = partOfLine(into.size(), line);
      std::memcpy(into.data() + part.begin, arena_.awaitLine(peer, me() * linesOfTaker_ + line),
                  part.size);
    }
  }

  void checkSize(int peer, std::uint64_t size) {
    const std::size_t expected = block(peer).size();
    if (size != expected) [[unlikely]] {
      shm::PeerWait& wait = arena_.wait();
      wait.throwCauseHere(wait.fail({.reason = Reason::MISMATCH,
                                     .culprits = {peer},
                                     .reporter = arena_.rank(),
                                     .seq = arena_.seq(),
                                     .text = str("rank ", peer, " gives ", size, " bytes to rank ",
                                                 me(), ", which expects ", expected)}));
    }
  }

  shm::Arena& arena_;
  const std::span<const ConstBlock> give_;
  const std::span<const Block> take_;
  const std::size_t linesOfTaker_;
  const std::size_t mostByLines_;  // 0: nothing goes that way
  std::size_t rounds_ = 1;
  // Where something goes by slots:
  std::size_t table_ = 0;
  std::size_t piece_ = 0;
};

}  // namespace

std::size_t mostOfDealtLines(int ranks) noexcept {
  const std::size_t lines = shm::kLlLines / static_cast<std::size_t>(ranks);
  return lines == 0 ? 0 : lines * kPayload - sizeof(std::uint64_t);
}

void dealBlocks(shm::Arena& arena, std::span<const ConstBlock> give, std::span<const Block> take,
                std::span<const int> givers, std::size_t mostByLines) {
  Deal deal(arena, give, take, mostByLines);
  moveBlocks(arena, deal, givers);
}

}  // namespace unisono
