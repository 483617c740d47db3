// What the other ranks do: they find rank 0, and ask it for the memory.
#include <utility>

#include "base/host.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "transport/shm/formation.hpp"

namespace unisono::shm {

std::shared_ptr<SharedMapping> Formation::join() {
  std::optional<Deadline> successor;
  // A refusal that was there when this rank came may be one of an earlier group.
  const std::string earlier = meeting_.announcement();
  const Deadline another = meeting_.deadline().within(Meeting::kSuccessorTime);
  for (;;) {
    root_ = meeting_.awaitRoot();
    if (auto mapping = root_.refusal.empty() ? joinRoot() : nullptr) {
      return mapping;
    }
    const bool isFresh = another.expired() || root_.encode() != earlier;
    if (!root_.refusal.empty() && isFresh) {
      meeting_.blame({.reason = root_.reason,
                      .culprits = {0},
                      .text = str("rank 0 cannot form group '", options_.group,
                                  "': ", printable(root_.refusal))});
    }
    // A root that is gone may be one too, whose successor is about to come.
    successor = successor ? successor : meeting_.deadline().within(Meeting::kSuccessorTime);
    if (root_.refusal.empty() && successor->expired()) {
      const auto process = decodeMark(root_.process);
      // Alive, but with no group to join: it has failed, and has thrown why.
      const bool gaveUp =
          process && lifeOf(*process, meeting_.here()) == Life::ALIVE && meeting_.isAlive(root_);
      const AbortCause cause{
          .reason = gaveUp ? Reason::PEER_LEFT : Reason::PEER_DEAD,
          .culprits = {0},
          .text = str("rank 0 (process ", process ? process->pid : -1,
                      gaveUp ? ") has given up forming group '" : ") died while group '",
                      options_.group, gaveUp ? "': its error says why" : "' was formed")};
      if (!gaveUp) {
        meeting_.speakFor(root_, cause);
      }
      meeting_.blame(cause);
    }
    pauseFor(Milliseconds(10), {.deadline = meeting_.deadline(), .subject = {}});
  }
}

/// Rank 0's memory; none when its process cannot be reached. What this rank throws, rank 0 learns.
std::shared_ptr<SharedMapping> Formation::joinRoot() {
  if (root_.socket.empty()) {
    throwNoSharedMemory(str("rank 0 forms group '", options_.group, "' by TCP"), {0});
  }
  try {
    checkHost(root_);
    return ask(root_);
  } catch (const NoSharedMemory& error) {
    decline(kNoSharedMemory, error.facts().what);
    throw;
  } catch (const DistError& error) {
    decline(error.reason(), error.facts().what);
    throw;
  } catch (...) {
    decline(Reason::ABORTED,
            str("rank ", options_.rank, " has left while group '", options_.group, "' was formed"));
    throw;
  }
}

void Formation::decline(Reason reason, const std::string& text) noexcept {
  if (!refused_) {  // else rank 0 knows
    meeting_.decline(root_, reason, text);
  }
}

void Formation::checkHost(const RootRecord& root) const {
  if (root.host != hostId()) {
    throwNoSharedMemory(str("group '", options_.group, "' spans several hosts: rank 0 is on '",
                            root.host, "', rank ", options_.rank, " on '", hostId(), "'"),
                        {options_.rank});
  }
}

void Formation::throwNoSharedMemory(std::string why, const std::vector<int>& ranks,
                                    Reason reason) const {
  ErrorFacts known = meeting_.facts();
  known.reason = reason;
  known.what = std::move(why);
  known.culprits = inWorld(ranks, options_.globalRanks);
  known.hint = "let ranks that share no memory use TCP: unset UNISONO_TRANSPORT";
  throw NoSharedMemory(std::move(known), root_.cookie);
}

/// The memory of `root`; none when its process cannot be reached.
std::shared_ptr<SharedMapping> Formation::ask(const RootRecord& root) {
  const JoinRequest request{.version = kVersion,
                            .size = static_cast<std::uint32_t>(options_.size),
                            .rank = static_cast<std::uint32_t>(options_.rank),
                            .settings = options_.settings,
                            .process = encodeMark(meeting_.here())};
  Result<LocalMessage> reply =
      askMonitor(root.socket, root.cookie, str("J", request.encode()), meeting_.deadline(),
                 [&] { return !meeting_.isAlive(root); });
  if (!reply.isOk() && reply.failure().reason() == Reason::RESOURCE) {
    ErrorFacts lacking = meeting_.facts();
    lacking.reason = Reason::RESOURCE;
    lacking.what = str("rank ", options_.rank, " cannot join group '", options_.group,
                       "': ", reply.failure().text());
    lacking.hint = "raise the limit of open descriptors (ulimit -n)";
    throw DistBackendError(std::move(lacking));
  }
  if (!reply.isOk()) {
    return nullptr;
  }
  LocalMessage& answer = reply.value();
  if (answer.bytes.starts_with('M')) {
    if (auto mapping = SharedMapping::find(root.cookie)) {
      return mapping;
    }
    return adopt(std::move(answer), root);
  }
  refused_ = true;
  ErrorFacts known = meeting_.facts();
  known.reason = Reason::CONFIG;
  known.what = str("group '", options_.group, "' refuses rank ", options_.rank, ": ",
                   answer.bytes.empty() ? "" : printable(std::string_view(answer.bytes).substr(1)));
  known.hint = "give every process its own rank, the same size, version and settings";
  throw DistBackendError(std::move(known));
}

/// Maps it, and sees to it that there is room for the ring, too, which is mapped when it is first
/// needed.
std::shared_ptr<SharedMapping> Formation::adopt(LocalMessage answer, const RootRecord& root) const {
  const std::string subject = str("group '", options_.group, "'");
  const auto ranks = static_cast<std::size_t>(options_.size);
  try {
    auto mapping =
        SharedMapping::adopt(std::move(answer), ranks, root.cookie, root.socket, subject);
    const std::size_t ring = ringBytes(ranks, mapping->header().ringChunk);
    if (const std::uint64_t left = SharedMemory::roomToMap(); left < ring) {
      throw SharedMemory::NoRoom(
          {.reason = Reason::RESOURCE,
           .what = str("no shared memory of ", formatBytes(ring), " for long operations of ",
                       subject, ": only ", formatBytes(left), " can be mapped"),
           .hint = "raise the limit of this process (ulimit -v)"});
    }
    return SharedMapping::share(std::move(mapping));
  } catch (const SharedMemory::NoRoom& lack) {
    if (!options_.mayUseTcp) {
      throw;
    }
    throwNoSharedMemory(str(meeting_.inWords({options_.rank}), " has ", lack.facts().what),
                        {options_.rank}, Reason::RESOURCE);
  }
}

}  // namespace unisono::shm
