#include "transport/shm/registered_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/mman.h>
#include <utility>

#include "base/bytes.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "base/str.hpp"

namespace unisono::shm {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;

}  // namespace

/// The blocks of this rank. Outlives the group as long as one of them is in use.
class RegisteredMemory::Own : public std::enable_shared_from_this<RegisteredMemory::Own> {
 public:
  explicit Own(BlockList& list) : list_(&list) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes, const std::string& group) {
    SharedMemory memory =
        SharedMemory::create(std::max<std::size_t>(bytes, 1),
                             str("a tensor of group '", group, "'"), SharedMemory::Fork::INHERITED);
    std::byte* const data = memory.bytes().data();
    if (bytes >= kHugePage) {
      ::madvise(data, bytes, MADV_HUGEPAGE);  // where the system has them for shared memory
    }
    std::uint32_t block = 0;
    {
      const MutexLock lock(mutex_);
      offer();
      block = freeNumber(group);
      blocks_.emplace(block, std::move(memory));
      numbers_.emplace(data, block);
      count_.store(blocks_.size(), std::memory_order_relaxed);
      list_->live[block % kMostBlocks].store(block, std::memory_order_release);
    }
    return {data, [self = shared_from_this(), block](std::byte*) { self->free(block); }};
  }

  Place find(std::span<const std::byte> bytes) const noexcept {
    if (count_.load(std::memory_order_relaxed) == 0) [[likely]] {
      return {};
    }
    const MutexLock lock(mutex_);
    const auto after = numbers_.upper_bound(bytes.data());
    if (after == numbers_.begin()) {
      return {};
    }
    const auto& [begin, number] = *std::prev(after);
    const std::size_t size = blocks_.find(number)->second.bytes().size();
    const auto offset = static_cast<std::size_t>(bytes.data() - begin);
    const bool inside = offset <= size && bytes.size() <= size - offset;
    return inside ? Place{.block = number, .offset = offset} : Place{};
  }

  /// The group goes; what is still in use stays as it is.
  void leaveGroup() {
    Monitor::Offer gone;  // outside of the lock: its handler takes it
    const MutexLock lock(mutex_);
    list_ = nullptr;
    gone = std::move(offer_);
  }

 private:
  /// Others can ask for blocks from now on.
  void offer() UNISONO_REQUIRES(mutex_) {
    if (offered_) {
      return;
    }
    const std::string cookie = randomId();
    std::memcpy(list_->cookie, cookie.data(), sizeof list_->cookie);
    offer_ = Monitor::instance().offer(
        cookie, [weak = weak_from_this()](std::string_view request, pid_t) {
          const auto self = weak.lock();
          return self ? self->answer(request) : Monitor::Answer{.bytes = "R"};
        });
    offered_ = true;
  }

  Monitor::Answer answer(std::string_view request) {
    const auto number = ByteReader(request).number<std::uint32_t>();
    const MutexLock lock(mutex_);
    const auto found = number ? blocks_.find(*number) : blocks_.end();
    if (found == blocks_.end()) {
      return {.bytes = "R"};
    }
    Monitor::Answer answer{.bytes = "M", .fd = found->second.descriptor()};
    ByteWriter(answer.bytes).number<std::uint64_t>(found->second.bytes().size());
    return answer;
  }

  std::uint32_t freeNumber(const std::string& group) UNISONO_REQUIRES(mutex_) {
    for (std::size_t tries = 0; tries < kMostBlocks; ++tries) {
      lastNumber_ = lastNumber_ + 1 == kOwnMemory ? 1 : lastNumber_ + 1;  // never 0
      if (list_->live[lastNumber_ % kMostBlocks].load(std::memory_order_relaxed) == 0) {
        return lastNumber_;
      }
    }
    throw DistError({.reason = Reason::LIMIT,
                     .what = str("this rank has ", kMostBlocks, " registered tensors already"),
                     .hint = "cut larger ones into parts, or let some go",
                     .group = group});
  }

  void free(std::uint32_t block) {
    if (madeIn_.inChild()) {
      return;  // it is the parent's
    }
    SharedMemory gone;
    const MutexLock lock(mutex_);
    auto node = blocks_.extract(block);
    count_.store(blocks_.size(), std::memory_order_relaxed);
    gone = std::move(node.mapped());
    numbers_.erase(gone.bytes().data());
    // The pages go now, not only when the last peer has unmapped them.
    ::fallocate(gone.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(gone.bytes().size()));
    if (list_ != nullptr) {
      list_->live[block % kMostBlocks].store(0, std::memory_order_release);
    }
  }

  const ForkGuard madeIn_;
  std::atomic<std::size_t> count_{0};  // of blocks_
  mutable Mutex mutex_;
  BlockList* list_ UNISONO_GUARDED_BY(mutex_);  // null when the group has gone
  std::map<std::uint32_t, SharedMemory> blocks_ UNISONO_GUARDED_BY(mutex_);
  std::map<const std::byte*, std::uint32_t> numbers_ UNISONO_GUARDED_BY(mutex_);  // by address
  std::uint32_t lastNumber_ UNISONO_GUARDED_BY(mutex_) = 0;
  bool offered_ UNISONO_GUARDED_BY(mutex_) = false;
  Monitor::Offer offer_ UNISONO_GUARDED_BY(mutex_);
};

RegisteredMemory::RegisteredMemory(Segment& segment)
    : segment_(segment), own_(std::make_shared<Own>(segment.block(segment.rank()).blocks)) {}

RegisteredMemory::~RegisteredMemory() {
  own_->leaveGroup();
}

std::shared_ptr<std::byte> RegisteredMemory::allocate(std::size_t bytes) {
  return own_->allocate(bytes, segment_.group());
}

Place RegisteredMemory::find(std::span<const std::byte> bytes) const noexcept {
  return own_->find(bytes);
}

std::span<std::byte> RegisteredMemory::reach(int peer, Place place, std::size_t bytes,
                                             Deadline deadline) {
  const auto found = mapped_.find({peer, place.block});
  const SharedMemory& memory =
      found != mapped_.end() ? found->second : map(peer, place.block, deadline);
  const std::span<std::byte> block = memory.bytes();
  if (place.offset > block.size() || bytes > block.size() - place.offset) {
    throw DistError({.reason = Reason::PROTOCOL,
                     .what = str("rank ", peer, " announces a tensor that is not in its block"),
                     .group = segment_.group()});
  }
  return block.subspan(place.offset, bytes);
}

const SharedMemory& RegisteredMemory::map(int peer, std::uint32_t block, Deadline deadline) {
  dropStale(peer);
  const BlockList& list = segment_.block(peer).blocks;
  std::string request;
  ByteWriter(request).number(block);
  Result<LocalMessage> reply =
      askMonitor(segment_.socketOf(peer), std::string_view(list.cookie, sizeof list.cookie),
                 request, deadline, [&] { return segment_.isHopeless(peer); });
  const std::string subject = str("a tensor of rank ", peer, " of group '", segment_.group(), "'");
  if (!reply.isOk() || !reply.value().fd.valid()) {
    const Reason silent = segment_.whySilent(peer);
    const bool answered = reply.isOk() && silent == Reason::TIMEOUT;
    throw DistError({.reason = answered ? Reason::PROTOCOL : silent,
                     .what = str("rank ", peer, " (", segment_.describeProcess(peer),
                                 ") does not give out its registered memory"),
                     .group = segment_.group()});
  }
  ByteReader reader(std::string_view(reply.value().bytes).substr(1));
  const std::uint64_t bytes = reader.number<std::uint64_t>().value_or(0);
  SharedMemory memory = SharedMemory::adopt(std::move(reply.value().fd), bytes, subject);
  memory.closeDescriptor();  // its rank hands it out
  return mapped_.emplace(Key(peer, block), std::move(memory)).first->second;
}

/// Unmaps blocks that their rank has let go.
void RegisteredMemory::dropStale(int peer) {
  const BlockList& list = segment_.block(peer).blocks;
  std::erase_if(mapped_, [&](const auto& entry) {
    const auto [owner, block] = entry.first;
    return owner == peer && list.live[block % kMostBlocks].load(std::memory_order_acquire) != block;
  });
}

}  // namespace unisono::shm
