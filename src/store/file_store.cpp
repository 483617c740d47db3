#include "unisono/store/file_store.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/bytes.hpp"
#include "store/common.hpp"
#include "store/decimal.hpp"
#include "store/file/shared_log.hpp"

namespace unisono {
namespace {

/// `path` from the root: a later change of the working folder must not lead elsewhere.
std::string absolutePath(const std::string& path) {
  UNISONO_CHECK(!path.empty() && path.find('\0') == std::string::npos,
                "FileStore needs the path of a file");
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

[[noreturn]] void refuseSize(std::string_view op, std::string_view key, std::string_view what,
                             std::size_t size, std::size_t most) {
  throw DistStoreError(
      {.reason = Reason::LIMIT,
       .what = str("the ", what, " of ", size, " bytes for key ", key.substr(0, 64),
                   " is too long: a store takes at most ", formatBytes(most)),
       .hint = "keep large data elsewhere, and its place in the store",
       .op = std::string(op)});
}

/// The record of a user's value; LIMIT when key or value are too long.
Record userRecord(std::string_view op, std::string_view key, std::string_view value) {
  if (key.size() + 1 > kMostKeyBytes) {
    refuseSize(op, key, "key", key.size(), kMostKeyBytes - 1);
  }
  if (value.size() > kMostValueBytes) {
    refuseSize(op, key, "value", value.size(), kMostValueBytes);
  }
  return {str("/", key), std::string(value)};
}

}  // namespace

struct FileStore::Impl {
  const std::string path;  // as given
  const int worldSize;
  const Presence presence;
  SharedLog log;
};

FileStore::FileStore(std::string path, int worldSize,
                     std::optional<std::chrono::milliseconds> timeout) {
  if (timeout) {
    setTimeout(*timeout);
  }
  impl_.reset(new Impl{path, worldSize, Presence::MEMBER,
                       SharedLog(absolutePath(path), Presence::MEMBER, this->timeout())});
}

FileStore::FileStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::shared_ptr<FileStore> FileStore::visit(std::string path,
                                            std::optional<std::chrono::milliseconds> timeout) {
  const Milliseconds most = checkedTimeout(timeout.value_or(defaultTimeout()));
  std::unique_ptr<Impl> impl(new Impl{path, -1, Presence::VISITOR,
                                      SharedLog(absolutePath(path), Presence::VISITOR, most)});
  const std::shared_ptr<FileStore> store(new FileStore(std::move(impl)));
  store->setTimeout(most);
  return store;
}

FileStore::~FileStore() {
  if (impl_->log.inChild()) {
    // The parent is still counted in, and a thread that does not exist here may hold a mutex.
    static_cast<void>(impl_.release());
    return;
  }
  impl_->log.leave(impl_->worldSize);
}

const std::string& FileStore::path() const noexcept {
  return impl_->path;
}

void FileStore::set(std::string_view key, BytesView value) {
  const std::vector<Record> change{userRecord("set", key, asText(value))};
  impl_->log.run("set", LockMode::EXCLUSIVE, timeout(), [&](FileLog& log) { log.write(change); });
}

Bytes FileStore::get(std::string_view key) {
  const std::string name(key);
  Bytes value;
  impl_->log.runWhenSet("get", {&name, 1}, timeout(),
                        [&](FileLog& log) { value = toBytes(*log.find(name)); });
  return value;
}

Bytes FileStore::compareSet(std::string_view key, BytesView expected, BytesView desired) {
  return trySwap(key, expected, desired).value;
}

Store::Swap FileStore::trySwap(std::string_view key, BytesView expected, BytesView desired) {
  const std::vector<Record> change{userRecord("compare_set", key, asText(desired))};
  Swap result;
  impl_->log.run("compare_set", LockMode::EXCLUSIVE, timeout(), [&](FileLog& log) {
    const std::string* stored = log.find(key);
    const std::string_view now = textOf(stored);
    if (now == asText(expected)) {
      log.write(change);
      result = {.value = toBytes(asText(desired)), .stored = true};
    } else {
      result = {.value = toBytes(stored == nullptr ? asText(expected) : now), .stored = false};
    }
  });
  return result;
}

std::int64_t FileStore::add(std::string_view key, std::int64_t delta) {
  std::int64_t sum = 0;
  impl_->log.run("add", LockMode::EXCLUSIVE, timeout(), [&](FileLog& log) {
    const Result<std::int64_t> result = addDecimal(textOf(log.find(key)), delta);
    if (!result.isOk()) {
      throw DistStoreError(
          {.reason = result.failure().reason(),
           .what = str("add cannot count with key ", shownKey(key), ": ", result.failure().text()),
           .hint = remedyFor(result.failure().reason()),
           .op = "add"});
    }
    sum = result.value();
    log.write({userRecord("add", key, str(sum))});
  });
  return sum;
}

bool FileStore::deleteKey(std::string_view key) {
  bool deleted = false;
  impl_->log.run("delete_key", LockMode::EXCLUSIVE, timeout(), [&](FileLog& log) {
    deleted = log.find(key) != nullptr;
    if (deleted) {
      log.write({{str("-/", key), ""}});
    }
  });
  return deleted;
}

std::int64_t FileStore::deletePrefix(std::string_view prefix) {
  std::vector<Record> change;
  impl_->log.run("delete_prefix", LockMode::EXCLUSIVE, timeout(), [&](FileLog& log) {
    const std::string start = str("/", prefix);
    for (auto at = log.values().lower_bound(start);
         at != log.values().end() && at->first.starts_with(start); ++at) {
      change.push_back({str("-", at->first), ""});
    }
    log.write(change);
  });
  return static_cast<std::int64_t>(change.size());
}

bool FileStore::check(std::span<const std::string> keys) {
  bool all = false;
  impl_->log.run("check", LockMode::SHARED, timeout(),
                 [&](FileLog& log) { all = missingOf(keys, log).empty(); });
  return all;
}

void FileStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  impl_->log.runWhenSet("wait", keys, timeout, [](FileLog&) {});
}

std::int64_t FileStore::numKeys() {
  std::size_t count = 0;
  impl_->log.run("num_keys", LockMode::SHARED, timeout(),
                 [&](FileLog& log) { count = log.values().size(); });
  return static_cast<std::int64_t>(count);
}

std::vector<std::string> FileStore::listKeys() {
  std::vector<std::string> keys;
  impl_->log.run("list_keys", LockMode::SHARED, timeout(), [&](FileLog& log) {
    for (const auto& [stored, value] : log.values()) {
      if (stored.starts_with('/')) {
        keys.push_back(stored.substr(1));
      }
    }
  });
  return keys;
}

void FileStore::append(std::string_view key, BytesView value) {
  impl_->log.run("append", LockMode::EXCLUSIVE, timeout(), [&](FileLog& log) {
    log.write({userRecord("append", key, str(textOf(log.find(key)), asText(value)))});
  });
}

std::vector<Bytes> FileStore::multiGet(std::span<const std::string> keys) {
  std::vector<Bytes> values;
  impl_->log.runWhenSet("multi_get", keys, timeout(), [&](FileLog& log) {
    for (const std::string& key : keys) {
      values.push_back(toBytes(*log.find(key)));
    }
  });
  return values;
}

void FileStore::multiSet(std::span<const std::string> keys, std::span<const Bytes> values) {
  checkSameSize(keys, values);
  std::vector<Record> change;
  change.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    change.push_back(userRecord("multi_set", keys[i], asText(values[i])));
  }
  impl_->log.run("multi_set", LockMode::EXCLUSIVE, timeout(),
                 [&](FileLog& log) { log.write(change); });
}

std::shared_ptr<Store> FileStore::clone() {
  impl_->log.checkUsable();
  if (impl_->presence == Presence::VISITOR) {
    return visit(impl_->log.path(), timeout());
  }
  return std::make_shared<FileStore>(impl_->log.path(), impl_->worldSize, timeout());
}

}  // namespace unisono
