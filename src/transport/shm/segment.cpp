#include "transport/shm/segment.hpp"

#include <utility>

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "transport/shm/formation.hpp"

namespace unisono::shm {

std::unique_ptr<Segment> Segment::form(const FormOptions& options) {
  return Formation(options).run();
}

Segment::Segment(const FormOptions& options, std::shared_ptr<SharedMapping> mapping,
                 Monitor::Offer offer)
    : rank_(options.rank),
      size_(options.size),
      group_(options.group),
      layout_{static_cast<std::size_t>(options.size)},
      mapping_(std::move(mapping)),
      offer_(std::move(offer)) {}

Segment::~Segment() {
  if (madeIn_.inChild()) {
    return;
  }
  Identity& identity = block(rank_).identity;
  if (identity.state.load(std::memory_order_relaxed) ==
      static_cast<std::uint32_t>(RankState::LIVE)) {
    // Release: who sees that this rank has left also sees all it wrote.
    identity.state.store(static_cast<std::uint32_t>(RankState::LEFT), std::memory_order_release);
    Monitor::instance().letGo(block(rank_).life);
  }
}

std::span<std::byte> Segment::extend(std::uint32_t number, std::size_t bytes, Deadline deadline) {
  if (const auto there = mapping_->extension(number)) {
    return *there;
  }
  const std::string subject = str("group '", group_, "'");
  if (rank_ == 0) {
    return mapping_->addExtension(number, SharedMemory::create(bytes, subject));
  }
  std::string request = "E";
  ByteWriter(request).number(number);
  for (;;) {
    Result<LocalMessage> reply =
        askMonitor(mapping_->rootSocket(), mapping_->cookie(), request, deadline);
    if (const auto there = mapping_->extension(number)) {
      return *there;  // another rank of this process was faster
    }
    if (reply.isOk() && reply.value().fd.valid()) {
      return mapping_->addExtension(
          number, SharedMemory::adopt(std::move(reply.value().fd), bytes, subject));
    }
    if (!reply.isOk() || header().abort.isSet() || deadline.expired()) {
      return {};
    }
    pauseFor(Milliseconds(1), {.deadline = deadline, .subject = {}});
  }
}

}  // namespace unisono::shm
