// What rank 0 does before the others come: it makes the memory, and offers it.
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "transport/shm/formation.hpp"
#include "transport/shm/root_host.hpp"

namespace unisono::shm {
namespace {

/// The largest slots for which there is room. The ring is made when it is first needed; then it
/// may still be refused. Throws NoRoom when there is not even any for the least.
std::size_t chunkThatFits(std::size_t ranks, const std::string& group) {
  const std::size_t usual = usualChunk(ranks);
  const std::uint64_t left = SharedMemory::room();
  std::size_t chunk = usual;
  while (ringBytes(ranks, chunk) > left && chunk / 2 >= kLeastChunk) {
    chunk = chunk / 2 / 1024 * 1024;
  }
  if (ringBytes(ranks, chunk) > left) {
    throw SharedMemory::NoRoom(
        {.reason = Reason::RESOURCE,
         .what = str("no shared memory of ", formatBytes(ringBytes(ranks, chunk)),
                     " for long operations of group '", group, "': only ", formatBytes(left),
                     " are left to this process"),
         .hint = "free memory or raise the limit of this process"});
  }
  if (chunk < usual) {
    UNISONO_LOG(
        WARN, "transport", "group '", group, "' gets ", formatBytes(ringBytes(ranks, chunk)),
        " of shared memory for long operations instead of ", formatBytes(ringBytes(ranks, usual)),
        ": ", formatBytes(left), " are left to this process");
  }
  return chunk;
}

}  // namespace

std::shared_ptr<SharedMapping> Formation::found() {
  try {
    return makeMemory();
  } catch (const SharedMemory::NoRoom& lack) {
    if (options_.mayUseTcp) {
      root_ = {};  // of which nobody has heard
      throwNoSharedMemory(lack.facts().what, {0}, Reason::RESOURCE);
    }
    meeting_.stayAway();
    throw;
  } catch (...) {
    meeting_.stayAway();
    throw;
  }
}

std::shared_ptr<SharedMapping> Formation::makeMemory() {
  const Layout layout{static_cast<std::size_t>(options_.size)};
  SharedMemory memory = SharedMemory::create(layout.bytes(), str("group '", options_.group, "'"));
  root_ = meeting_.aboutRoot(kVersion);
  root_.socket = Monitor::instance().socketName();
  root_.cookie = randomId();
  auto* header = new (memory.bytes().data()) Header;  // over zeroed bytes: all words are 0
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kVersion;
  header->ranks = root_.size;
  header->bytes = layout.bytes();
  std::memcpy(header->cookie, root_.cookie.data(), sizeof header->cookie);
  header->ringChunk = static_cast<std::uint32_t>(chunkThatFits(layout.ranks, options_.group));
  auto* blocks = reinterpret_cast<RankBlock*>(memory.bytes().data() + layout.blocks());
  for (std::size_t i = 0; i < layout.ranks; ++i) {
    blocks[i].life.prepare();
  }
  blocks[0].identity.pid = meeting_.here().pid;
  blocks[0].identity.startTicks = meeting_.here().startTicks;
  blocks[0].identity.pidNamespace = meeting_.here().pidNamespace;
  return SharedMapping::share(
      std::make_shared<SharedMapping>(root_.cookie, root_.socket, std::move(memory)));
}

Monitor::Offer Formation::serve(const std::shared_ptr<SharedMapping>& mapping) {
  auto host = std::make_shared<RootHost>(mapping, root_, options_.settings);
  return Monitor::instance().offer(root_.cookie, [host](std::string_view request, pid_t /*from*/) {
    return host->answer(request);
  });
}

}  // namespace unisono::shm
