#include "transport/shm/root_host.hpp"

#include "base/bytes.hpp"
#include "base/futex.hpp"
#include "base/process.hpp"
#include "base/str.hpp"

namespace unisono::shm {
namespace {

Monitor::Answer refusal(const std::string& why) {
  return {str("R", why), -1};
}
Monitor::Answer memory(int fd, std::size_t bytes) {
  Monitor::Answer answer{"M", fd};
  ByteWriter(answer.bytes).number<std::uint64_t>(bytes);
  return answer;
}

/// The one that this rank makes: `number`, of so many bytes.
Monitor::Answer extension(SharedMapping& mapping, std::string_view asked, std::uint32_t number,
                          std::size_t bytes) {
  if (ByteReader(asked).number<std::uint32_t>() != number) {
    return refusal("there is no such memory");
  }
  try {
    mapping.makeExtension(number, bytes);
  } catch (const DistError& error) {
    return refusal(error.facts().what);
  }
  const auto [fd, size] = mapping.extensionDescriptor(number);
  return memory(fd, size);
}

}  // namespace

Monitor::Answer RootHost::answer(std::string_view request) const {
  const std::shared_ptr<SharedMapping> mapping = mapping_.lock();
  if (!mapping || request.empty()) {
    return refusal("the group is gone");
  }
  const std::string_view rest = request.substr(1);
  return request.front() == 'J' ? join(*mapping, rest)
                                : extension(*mapping, rest, kRingExtension,
                                            ringBytes(root_.size, mapping->header().ringChunk));
}

Monitor::Answer RootHost::join(SharedMapping& mapping, std::string_view bytes) const {
  const auto request = JoinRequest::decode(bytes);
  const auto process = request ? decodeMark(request->process) : std::nullopt;
  if (!process) {
    return refusal("the request to join is not understood");
  }
  std::string why = objection(*request);
  const bool known = request->rank > 0 && request->rank < root_.size;
  if (why.empty() && known) {
    const Layout layout{root_.size};
    std::byte* blocks = mapping.memory().bytes().data() + layout.blocks();
    why = claim(reinterpret_cast<RankBlock*>(blocks)[request->rank], *request, *process);
  }
  if (why.empty()) {
    return memory(mapping.memory().descriptor(), mapping.memory().bytes().size());
  }
  if (mapping.header().formed.load(std::memory_order_acquire) == 0) {
    const AbortCause cause{
        .reason = Reason::CONFIG,
        .culprits = known ? std::vector{static_cast<int>(request->rank)} : std::vector<int>(),
        .reporter = 0,
        .seq = 0,
        .text = why};
    static_cast<void>(mapping.header().abort.publish(cause));
    futexWakeAll(mapping.header().formed);
  }
  return refusal(why);
}

std::string RootHost::objection(const JoinRequest& request) const {
  const std::string who = str("rank ", request.rank, " (", request.process, ")");
  if (request.version != root_.version) {
    return str(who, " speaks version ", request.version, " and rank 0 version ", root_.version,
               " of the group's memory");
  }
  if (request.size != root_.size || request.rank == 0 || request.rank >= root_.size) {
    return str(who, " wants to be in a group of ", request.size, ", but rank 0 made one of ",
               root_.size);
  }
  if (request.settings != settings_) {
    return str(who, " has the settings '", printable(request.settings), "', but rank 0 has '",
               printable(settings_), "'");
  }
  return "";
}

std::string RootHost::claim(RankBlock& block, const JoinRequest& request,
                            const ProcessMark& process) {
  Identity& identity = block.identity;
  const auto state = static_cast<RankState>(identity.state.load(std::memory_order_acquire));
  if (state != RankState::EMPTY) {
    return str("rank ", request.rank, " is claimed twice: by process ", identity.pid,
               " and by process ", process.pid, " on ", process.host);
  }
  identity.pid = process.pid;
  identity.startTicks = process.startTicks;
  identity.pidNamespace = process.pidNamespace;
  // Release: who sees that somebody joins also sees who it is.
  identity.state.store(static_cast<std::uint32_t>(RankState::JOINING), std::memory_order_release);
  return "";
}

Monitor::Answer giveInbox(SharedMapping* mapping, int rank, int size, std::string_view request) {
  if (mapping == nullptr || request.empty()) {
    return refusal("the group is gone");
  }
  return extension(*mapping, request.substr(1), kFirstInbox + static_cast<std::uint32_t>(rank),
                   Layout{static_cast<std::size_t>(size)}.inboxBytes());
}

}  // namespace unisono::shm
