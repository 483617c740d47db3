#include "transport/shm/formation.hpp"

#include <algorithm>
#include <utility>

#include "base/futex.hpp"
#include "base/str.hpp"

namespace unisono::shm {

Formation::Formation(const FormOptions& options)
    : options_(options),
      meeting_(options),
      nextLook_(Deadline::after(kProcessLook)),
      nextStoreLook_(Deadline::after(kStoreLook)) {}

std::unique_ptr<Segment> Formation::run() {
  checkSystem();
  const bool isRoot = options_.rank == 0;
  const std::shared_ptr<SharedMapping> mapping = isRoot ? found() : join();
  std::unique_ptr<Segment> segment;  // outside: it leaves after the others were told why
  try {
    Monitor::Offer offer = isRoot ? serve(mapping) : Monitor::Offer();
    segment.reset(new Segment(options_, mapping, std::move(offer)));
    goLive(*segment);
    if (isRoot) {
      meeting_.announce(root_);
    }
    awaitAll(*segment);
  } catch (...) {
    giveUp(mapping->header());
    if (isRoot && !meeting_.hasAnnounced()) {
      meeting_.stayAway();  // nobody has the memory, in which it would be told
    }
    throw;
  }
  // Another process may have written anything there.
  segment->cores_ = static_cast<int>(std::clamp<std::uint32_t>(
      segment->header().cores, 1, static_cast<std::uint32_t>(CpuShare::kMostCores)));
  return segment;
}

void Formation::checkSystem() {
  if (lifeWordsWork()) {
    return;
  }
  try {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = "this system does not tell of the death of processes: robust futexes "
                             "are missing",
                     .hint = "use a kernel with CONFIG_FUTEX"});
  } catch (...) {
    meeting_.stayAway();
    throw;
  }
}

void Formation::goLive(Segment& segment) {
  RankBlock& mine = segment.block(options_.rank);
  mine.cpus = cpuShare();
  Monitor::instance().hold(mine.life);
  // Release: who sees this rank live also sees that its life word is held, and what it may use.
  mine.identity.state.store(static_cast<std::uint32_t>(RankState::LIVE), std::memory_order_release);
  futexWakeAll(segment.header().formed);
}

/// Ends the formation for all, with the exception that this rank leaves it by.
void Formation::giveUp(Header& header) const noexcept {
  AbortCause cause;
  cause.reporter = options_.rank;
  try {
    try {
      cause.culprits = {options_.rank};
      cause.text = str(meeting_.inWords({options_.rank}), " has left while group '", options_.group,
                       "' was formed");
      throw;
    } catch (const DistError& error) {
      cause.reason = error.reason();
      cause.text = error.facts().what;
    }
  } catch (...) {  // an interrupt; or there is no memory for the words
  }
  static_cast<void>(header.abort.publish(cause));
  futexWakeAll(header.formed);
}

/// Ends the formation for all.
void Formation::fail(Segment& segment, const AbortCause& cause) {
  static_cast<void>(segment.header().abort.publish(cause));
  futexWakeAll(segment.header().formed);
  meeting_.blame(cause);
}

}  // namespace unisono::shm
