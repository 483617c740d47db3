#include "transport/shm/shared_mapping.hpp"

#include <cstring>

#include "unisono/base/error.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"

namespace unisono::shm {
namespace {

[[noreturn]] void refuse(std::string_view subject, std::string_view why) {
  throw DistError({.reason = Reason::PROTOCOL,
                   .what = str("what rank 0 gave out as the memory of ", subject, " ", why),
                   .hint = "all ranks must run the same version of unisono"});
}

bool isHeaderOf(const Header& header, const Layout& layout, std::string_view cookie) noexcept {
  return std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.version == kVersion &&
         header.ranks == layout.ranks && header.bytes == layout.bytes() &&
         std::string_view(header.cookie, sizeof header.cookie) == cookie;
}

struct Registry {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<SharedMapping>> mappings UNISONO_GUARDED_BY(mutex);
};

/// Leaked: groups may live until the very end of the process.
Registry& registry() {
  static auto* one = new Registry;
  return *one;
}

}  // namespace

std::shared_ptr<SharedMapping> SharedMapping::adopt(LocalMessage answer, std::size_t ranks,
                                                    std::string cookie, std::string rootSocket,
                                                    std::string_view subject) {
  ByteReader in(answer.bytes);
  static_cast<void>(in.raw(1));  // 'M'
  const auto bytes = in.number<std::uint64_t>();
  const Layout layout{ranks};
  if (!bytes || !answer.fd.valid()) {
    refuse(subject, "is none");
  }
  // Its own word for the size is not enough: all addresses in it follow from the number of ranks.
  if (*bytes != layout.bytes()) {
    refuse(subject, str("is ", *bytes, " bytes long, not ", layout.bytes()));
  }
  SharedMemory memory = SharedMemory::adopt(std::move(answer.fd), layout.bytes(), subject);
  if (!isHeaderOf(*reinterpret_cast<const Header*>(memory.bytes().data()), layout, cookie)) {
    refuse(subject, "is that of another group");
  }
  memory.closeDescriptor();  // only rank 0 hands it on
  return std::make_shared<SharedMapping>(std::move(cookie), std::move(rootSocket),
                                         std::move(memory));
}

std::shared_ptr<SharedMapping> SharedMapping::find(const std::string& cookie) {
  Registry& known = registry();
  const MutexLock lock(known.mutex);
  const auto found = known.mappings.find(cookie);
  return found == known.mappings.end() ? nullptr : found->second.lock();
}

std::shared_ptr<SharedMapping> SharedMapping::share(std::shared_ptr<SharedMapping> mapping) {
  Registry& known = registry();
  const MutexLock lock(known.mutex);
  std::erase_if(known.mappings, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = known.mappings[mapping->cookie()];
  if (auto earlier = entry.lock()) {
    return earlier;
  }
  entry = mapping;
  return mapping;
}

std::optional<std::span<std::byte>> SharedMapping::extension(std::uint32_t number) {
  const MutexLock lock(mutex_);
  const auto found = extensions_.find(number);
  return found == extensions_.end() ? std::nullopt : std::optional(found->second.bytes());
}

std::pair<int, std::size_t> SharedMapping::extensionDescriptor(std::uint32_t number) {
  const MutexLock lock(mutex_);
  const auto found = extensions_.find(number);
  return found == extensions_.end()
             ? std::pair(-1, std::size_t{0})
             : std::pair(found->second.descriptor(), found->second.bytes().size());
}

std::span<std::byte> SharedMapping::makeExtension(std::uint32_t number, std::size_t bytes) {
  const MutexLock lock(mutex_);
  const auto [entry, isNew] = extensions_.try_emplace(number);
  if (isNew) {
    try {
      entry->second = SharedMemory::create(bytes, "a group");
    } catch (...) {
      extensions_.erase(entry);
      throw;
    }
  }
  return entry->second.bytes();
}

std::span<std::byte> SharedMapping::addExtension(std::uint32_t number, SharedMemory memory) {
  memory.closeDescriptor();  // only rank 0 hands it on
  const MutexLock lock(mutex_);
  return extensions_.try_emplace(number, std::move(memory)).first->second.bytes();
}

}  // namespace unisono::shm
