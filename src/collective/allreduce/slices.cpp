#include <algorithm>

#include "collective/allreduce/algorithms.hpp"
#include "collective/shares.hpp"
#include "collective/sources.hpp"
#include "reduction/copy.hpp"

namespace unisono {
namespace {

/// One all-reduce under way. A round goes through three steps; different rounds are in different
/// steps at the same time, so that a rank waits for what others did a whole round ago.
class Slices {
 public:
  Slices(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction)
      : arena_(arena),
        data_(data),
        reduction_(reduction),
        bytes_(data.elements * reduction.elementSize()),
        chunk_(std::min(arena.mostChunk(), (bytes_ + 63) / 64 * 64)) {}

  void run() {
    const std::size_t rounds = roundsFor(bytes_, chunk_);
    arena_.useSlots(chunk_, rounds);
    for (std::size_t step = 0; step < rounds + 2; ++step) {
      if (step < rounds) {
        copyIn(step);
      }
      if (step >= 1 && step - 1 < rounds) {
        reduceOwnShare(step - 1);
      }
      if (step >= 2) {
        collect(step - 2);
      }
    }
  }

 private:
  Range share(std::size_t round, int rank) const noexcept {
    const std::size_t size = roundOf(bytes_, chunk_, round).size;
    return shareOf(size, arena_.size(), rank, reduction_.elementSize());
  }

  /// All shares but the own one, which nobody else needs.
  void copyIn(std::size_t round) {
    const Range part = roundOf(bytes_, chunk_, round);
    const Range own = share(round, arena_.rank());
    const std::byte* from = data_.in + part.begin;
    arena_.awaitRoom(round);
    std::byte* slot = arena_.slot(arena_.rank(), round);
    copyBytes(slot, from, own.begin);
    copyBytes(slot + own.end(), from + own.end(), part.size - own.end());
    arena_.arrive(round);
  }

  /// The result goes to the place in the slot that was left free.
  void reduceOwnShare(std::size_t round) {
    const Range part = roundOf(bytes_, chunk_, round);
    const Range own = share(round, arena_.rank());
    Sources sources(arena_.size());
    for (int peer = 0; peer < arena_.size(); ++peer) {
      if (peer == arena_.rank()) {
        sources.set(peer, data_.in + part.begin + own.begin);
      } else {
        arena_.awaitArrival(peer, round);
        sources.set(peer, arena_.slot(peer, round) + own.begin);
      }
    }
    std::byte* result = arena_.slot(arena_.rank(), round) + own.begin;
    reduction_.reduce(result, sources.span(), own.size / reduction_.elementSize());
    arena_.publishResult(round);
    if (data_.isTaker(arena_.rank())) {
      copyBytes(data_.out + part.begin + own.begin, result, own.size);
    }
  }

  void collect(std::size_t round) {
    const Range part = roundOf(bytes_, chunk_, round);
    for (int turn = 1; turn < arena_.size() && data_.isTaker(arena_.rank()); ++turn) {
      const int peer = (arena_.rank() + turn) % arena_.size();
      const Range theirs = share(round, peer);
      arena_.awaitResult(peer, round);
      copyBytes(data_.out + part.begin + theirs.begin, arena_.slot(peer, round) + theirs.begin,
                theirs.size);
    }
    arena_.release(round);
  }

  shm::Arena& arena_;
  const AllreduceData data_;
  const Reduction& reduction_;
  const std::size_t bytes_;
  const std::size_t chunk_;
};

}  // namespace

void allreduceSlices(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction) {
  Slices(arena, data, reduction).run();
}

}  // namespace unisono
