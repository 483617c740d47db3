#include "collective/allreduce/algorithms.hpp"
#include "collective/shares.hpp"
#include "collective/sources.hpp"

namespace unisono {

std::size_t mostOfLl(std::size_t elementSize) noexcept {
  return wholeElements(shm::LlLine::kPayload, elementSize) * shm::kLlLines;
}

void allreduceLl(shm::Arena& arena, const AllreduceData& data, const Reduction& reduction) {
  const std::size_t width = reduction.elementSize();
  const std::size_t bytes = data.elements * width;
  const std::size_t payload = wholeElements(shm::LlLine::kPayload, width);
  const std::size_t lines = roundsFor(bytes, payload);
  for (std::size_t line = 0; line < lines; ++line) {
    const Range part = roundOf(bytes, payload, line);
    arena.sendLine(line, data.in + part.begin, part.size, line + 1 == lines);
  }
  if (!data.isTaker(arena.rank())) {
    return;
  }
  Sources sources(arena.size());
  for (std::size_t line = 0; line < lines; ++line) {
    const Range part = roundOf(bytes, payload, line);
    for (int peer = 0; peer < arena.size(); ++peer) {
      sources.set(peer, peer == arena.rank() ? data.in + part.begin : arena.awaitLine(peer, line));
    }
    reduction.reduce(data.out + part.begin, sources.span(), elementsOf(part.size, width));
  }
}

}  // namespace unisono
