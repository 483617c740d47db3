#include "transport/shm/formation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/futex.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "transport/shm/root_host.hpp"

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
    Segment::Offers offers{.group = isRoot ? serve(mapping) : Monitor::Offer(),
                           .inbox = offerInbox(mapping)};
    segment.reset(new Segment(options_, mapping, std::move(offers)));
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

/// The others ask for this rank's inbox when they first send to it.
Monitor::Offer Formation::offerInbox(const std::shared_ptr<SharedMapping>& mapping) const {
  Monitor& monitor = Monitor::instance();
  const std::string cookie = randomId();
  const std::string& socket = monitor.socketName();
  const Layout layout{static_cast<std::size_t>(options_.size)};
  auto* blocks = reinterpret_cast<RankBlock*>(mapping->memory().bytes().data() + layout.blocks());
  Desk& desk = blocks[options_.rank].desk;
  UNISONO_CHECK(socket.size() < sizeof desk.socket && cookie.size() == sizeof desk.inbox,
                "the name '", socket, "' of a monitor is longer than there is room for");
  std::memcpy(desk.socket, socket.c_str(), socket.size());
  std::memcpy(desk.inbox, cookie.data(), cookie.size());
  return monitor.offer(cookie, [weak = std::weak_ptr(mapping), rank = options_.rank,
                                size = options_.size](std::string_view request, pid_t /*from*/) {
    return giveInbox(weak.lock().get(), rank, size, request);
  });
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

/// Ends the formation for all, with the cause that was told first.
void Formation::fail(Segment& segment, const AbortCause& cause) {
  if (cause.reason == kNoSharedMemory && options_.rank == 0) {
    meeting_.moveToTcp(root_);  // before those who are here look for it
  }
  const bool isFirst = segment.header().abort.publish(cause);
  futexWakeAll(segment.header().formed);
  const AbortCause counts = isFirst ? cause : segment.cause().value_or(cause);
  if (counts.reason == kNoSharedMemory) {
    throwNoSharedMemory(counts.text, counts.culprits);
  }
  if (counts.reason == Reason::PEER_DEAD && counts.culprits == std::vector{0}) {
    meeting_.speakFor(root_, counts);  // there may be ranks on other hosts
  }
  meeting_.blame(counts);
}

}  // namespace unisono::shm
