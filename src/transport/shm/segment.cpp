#include "transport/shm/segment.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "transport/shm/formation.hpp"

namespace unisono::shm {

std::unique_ptr<Segment> Segment::form(const FormOptions& options) {
  return Formation(options).run();
}

Segment::Segment(const FormOptions& options, std::shared_ptr<SharedMapping> mapping, Offers offers)
    : rank_(options.rank),
      size_(options.size),
      group_(options.group),
      layout_{static_cast<std::size_t>(options.size)},
      mapping_(std::move(mapping)),
      offers_(std::move(offers)),
      word_{randomSeed(), randomSeed()} {
  ProofWord& mine = block(rank_).proof;
  mine.value[0] = word_[0];
  mine.value[1] = word_[1];
  // Release: who sees the address sees the value.
  mine.address.store(reinterpret_cast<std::uint64_t>(word_.data()), std::memory_order_release);
}

Segment::~Segment() {
  if (!madeIn_.inChild()) {
    leave();
  }
}

void Segment::withdraw() noexcept {
  block(rank_).proof.address.store(0, std::memory_order_seq_cst);
}

void Segment::leave() noexcept {
  Identity& identity = block(rank_).identity;
  if (identity.state.load(std::memory_order_relaxed) ==
      static_cast<std::uint32_t>(RankState::LIVE)) {
    withdraw();
    // Release: who sees that this rank has left also sees all it wrote.
    identity.state.store(static_cast<std::uint32_t>(RankState::LEFT), std::memory_order_release);
    Monitor::instance().letGo(block(rank_).life);
  }
}

AbortCause Segment::fail(AbortCause cause) const noexcept {
  static_cast<void>(header().abort.publish(cause));
  for (int peer = 0; peer < size_; ++peer) {
    ring(block(peer).door);
    ring(block(peer).mailDoor);
  }
  try {
    if (auto told = this->cause()) {
      return *std::move(told);
    }
  } catch (const std::bad_alloc&) {
    // What this rank knows is as good, when there is no memory for what counts.
  }
  return cause;
}

std::optional<AbortCause> Segment::cause() const {
  std::optional<AbortCause> cause = header().abort.read(
      [this](int reporter) { return reporter < size_ && block(reporter).life.ownerDied(); });
  if (cause) {
    // Another process may have written anything there.
    std::erase_if(cause->culprits, [this](int rank) { return rank >= size_; });
  }
  return cause;
}

std::vector<int> Segment::deadRanks() const {
  std::vector<int> dead;
  for (int peer = 0; peer < size_; ++peer) {
    if (block(peer).life.ownerDied()) {
      dead.push_back(peer);
    }
  }
  return dead;
}

bool Segment::canSeeProcess(int rank) const {
  const Identity& identity = block(rank).identity;
  // Acquire: before somebody joins there is no identity, and rank 0's monitor may be writing it.
  const auto state = static_cast<RankState>(identity.state.load(std::memory_order_acquire));
  return state != RankState::EMPTY && identity.pidNamespace == block(rank_).identity.pidNamespace;
}

bool Segment::isDumpingCore(int rank) const {
  return canSeeProcess(rank) && unisono::isDumpingCore(block(rank).identity.pid);
}

bool Segment::isHopeless(int rank) const {
  return header().abort.isSet() || block(rank).life.ownerDied() || isDumpingCore(rank);
}

Reason Segment::whySilent(int rank) const {
  const RankBlock& other = block(rank);
  if (other.life.ownerDied() || isDumpingCore(rank)) {
    return Reason::PEER_DEAD;
  }
  return other.identity.state.load(std::memory_order_acquire) ==
                 static_cast<std::uint32_t>(RankState::LEFT)
             ? Reason::PEER_LEFT
             : Reason::TIMEOUT;
}

bool Segment::isStopped(int rank) const {
  const auto process = canSeeProcess(rank) ? lookAt(block(rank).identity.pid) : std::nullopt;
  return process && (process->state == 'T' || process->state == 't');
}

std::string Segment::describeProcess(int rank) const {
  const pid_t pid = block(rank).identity.pid;
  return str("process ", pid, ", ",
             isDumpingCore(rank) ? "dumping core"
                                 : describeState(canSeeProcess(rank) ? lookAt(pid) : std::nullopt));
}

std::span<std::byte> Segment::extend(std::uint32_t number, Deadline deadline) {
  if (const auto there = mapping_->extension(number)) {
    return *there;
  }
  const std::size_t bytes = layout_.extensionBytes(number, header().ringChunk);
  if (bytes == 0) {
    throw DistError({.reason = Reason::USAGE,
                     .what = str("there is no such memory: number ", number),
                     .group = group_});
  }
  return rank_ == Layout::ownerOf(number) ? mapping_->makeExtension(number, bytes)
                                          : ask(number, deadline);
}

std::string Segment::socketOf(int rank) const {
  const Desk& desk = block(rank).desk;
  return {desk.socket, ::strnlen(desk.socket, sizeof desk.socket)};
}

Result<LocalMessage> Segment::askOwner(std::uint32_t number, Deadline deadline) const {
  const int owner = Layout::ownerOf(number);
  const auto isHopeless = [this, owner] { return this->isHopeless(owner); };
  std::string request = "E";
  ByteWriter(request).number(number);
  if (number == kRingExtension) {
    return askMonitor(mapping_->rootSocket(), mapping_->cookie(), request, deadline, isHopeless);
  }
  // Not rank 0: messages between others go on when it has left.
  const Desk& desk = block(owner).desk;
  return askMonitor(socketOf(owner), std::string_view(desk.inbox, sizeof desk.inbox), request,
                    deadline, isHopeless);
}

/// Asks the monitor of who makes it.
std::span<std::byte> Segment::ask(std::uint32_t number, Deadline deadline) {
  Result<LocalMessage> reply = askOwner(number, deadline);
  if (const auto there = mapping_->extension(number)) {
    return *there;  // another rank of this process was faster
  }
  if (reply.isOk() && reply.value().fd.valid()) {
    return mapping_->addExtension(
        number, SharedMemory::adopt(std::move(reply.value().fd),
                                    layout_.extensionBytes(number, header().ringChunk),
                                    str("group '", group_, "'")));
  }
  if (reply.isOk() && reply.value().bytes.starts_with('R')) {
    throw DistError(
        {.reason = Reason::RESOURCE,
         .what = str("rank ", Layout::ownerOf(number), " refuses: ", reply.value().bytes.substr(1)),
         .group = group_});
  }
  if (!reply.isOk() && reply.failure().reason() == Reason::RESOURCE) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("rank ", rank_, " cannot have more of the group's memory: ",
                                 reply.failure().text()),
                     .group = group_});
  }
  return {};
}

AbortCause Segment::silenceOfOwner(std::uint32_t number) const {
  const int owner = Layout::ownerOf(number);
  const Reason reason = whySilent(owner);
  return {.reason = reason,
          .culprits = {owner},
          .reporter = rank_,
          .text = str("rank ", owner, " (", describeProcess(owner), ") ",
                      reason == Reason::PEER_LEFT ? "has left the group, and " : "",
                      "does not give out the group's memory")};
}

Pipe Segment::pipe(int from, int to, Deadline deadline) {
  const std::span<std::byte> inbox = extend(kFirstInbox + static_cast<std::uint32_t>(to), deadline);
  const std::size_t bytes = pipeBytes(layout_.ranks);
  return inbox.empty() ? Pipe()
                       : Pipe(inbox.subspan(static_cast<std::size_t>(from) * bytes, bytes));
}

std::vector<int> culpritsNow(const Segment& segment, const AbortCause& cause) {
  std::vector<int> culprits;
  const std::vector<int> dead =
      cause.reason == Reason::PEER_DEAD ? segment.deadRanks() : std::vector<int>();
  for (int rank = 0; rank < segment.size(); ++rank) {
    if (std::find(cause.culprits.begin(), cause.culprits.end(), rank) != cause.culprits.end() ||
        std::binary_search(dead.begin(), dead.end(), rank)) {
      culprits.push_back(rank);
    }
  }
  return culprits;
}

}  // namespace unisono::shm
