#include "unisono/store/hash_store.hpp"

#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "base/bytes.hpp"
#include "base/fork.hpp"
#include "base/gate.hpp"
#include "base/wait.hpp"
#include "store/common.hpp"
#include "store/kv_table.hpp"

namespace unisono {
namespace {

constexpr std::string_view kNobodyHere = "Wait timeout: nobody in this process has set it";

std::vector<std::string_view> views(std::span<const std::string> keys) {
  return {keys.begin(), keys.end()};
}

/// Nothing here comes from strangers: only the sizes of keys and values are limited, so that what
/// works here works with other stores.
StoreLimits processLimits() {
  StoreLimits limits;
  limits.contentBytes = std::numeric_limits<std::uint64_t>::max() / 2;
  limits.keys = limits.contentBytes;
  limits.queueLength = limits.contentBytes;
  return limits;
}

[[noreturn]] void refuse(std::string_view op, std::string_view key, const Status& why) {
  throw DistStoreError({.reason = why.reason(),
                        .what = str(op, " of ", shownKey(key), " was refused: ", why.text()),
                        .hint = remedyFor(why.reason()),
                        .op = std::string(op)});
}

/// LIMIT unless a store over TCP would take the key too, which puts a "/" in front.
void requireKey(std::string_view op, std::string_view key) {
  constexpr std::size_t kMost = StoreLimits{}.keyBytes - 1;
  if (key.size() > kMost) {
    refuse(op, key,
           {Reason::LIMIT, str("the key has ", key.size(), " bytes; the limit is ", kMost)});
  }
}

void requireKeys(std::string_view op, std::span<const std::string> keys) {
  for (const std::string& key : keys) {
    requireKey(op, key);
  }
}

template <typename T>
T valueOr(std::string_view op, std::string_view key, Result<T> result) {
  if (!result.isOk()) {
    refuse(op, key, result.failure());
  }
  return std::move(result.value());
}

}  // namespace

struct HashStore::Impl {
  /// A thread that waits. Each has its own condition, so that a change wakes whom it concerns.
  struct Sleeper {
    CondVar changed;
    bool awake = false;
    bool ended = false;                 // by the destructor
    std::function<void(Wake&)> onWake;  // runs at the moment at which the wait ends
  };
  /// Begins a wait in the table: true when there is nothing to wait for.
  using Begin = std::function<bool(KvTable& table, WaitId id)>;

  ForkGuard madeIn;
  Gate gate;
  Mutex mutex;
  KvTable table UNISONO_GUARDED_BY(mutex){processLimits()};
  std::map<WaitId, Sleeper*> sleepers UNISONO_GUARDED_BY(mutex);
  WaitId lastWait UNISONO_GUARDED_BY(mutex) = 0;
  bool closing UNISONO_GUARDED_BY(mutex) = false;  // nobody may fall asleep any more

  /// Runs `use` on the table and wakes those whose wait it ended.
  template <typename Use>
  auto with(Use use) UNISONO_EXCLUDES(mutex) {
    madeIn.check("HashStore");
    const Gate::Pass pass(gate, "HashStore");
    const MutexLock lock(mutex);
    auto result = use(table);
    wakeSleepers();
    return result;
  }

  void write(std::string_view op, std::string_view key,
             const std::function<Status(KvTable&)>& change) UNISONO_EXCLUDES(mutex) {
    requireKey(op, key);
    const Status status = with(change);
    if (!status.isOk()) {
      refuse(op, key, status);
    }
  }

  void wakeSleepers() UNISONO_REQUIRES(mutex) {
    for (Wake& wake : table.takeWakes()) {
      const auto found = sleepers.find(wake.id);
      if (found != sleepers.end()) {
        found->second->onWake(wake);
        found->second->awake = true;
        found->second->changed.notifyAll();
      }
    }
  }

  /// True when `begin` was satisfied at once, or later and `onWake` has run; false when the
  /// timeout passed first.
  bool waitFor(std::string_view op, std::span<const std::string> keys, Milliseconds timeout,
               const Begin& begin, std::function<void(Wake&)> onWake) UNISONO_EXCLUDES(mutex) {
    madeIn.check("HashStore");
    const Gate::Pass pass(gate, "HashStore");
    const Deadline deadline = Deadline::after(checkedTimeout(timeout));
    requireKeys(op, keys);
    const MutexLock lock(mutex);
    if (closing) {  // it was let in just before the gate closed
      Gate::refuse("HashStore");
    }
    const WaitId id = ++lastWait;
    const bool satisfied = begin(table, id);
    wakeSleepers();
    if (satisfied) {
      return true;
    }
    Sleeper self;
    self.onWake = std::move(onWake);
    const Asleep asleep(*this, id, self);
    CondWaitable on(self.changed, mutex);
    const WaitContext wait{.deadline = deadline, .subject = [&] {
                             return str("store key ", shownKeys(keys, 4), " (", op, ")");
                           }};
    const bool woken = waitUntil([&] { return self.awake; }, wait, on);
    if (self.ended) {
      Gate::refuse("HashStore");
    }
    return woken;
  }

  /// Being on the list of sleepers; leaving it ends the wait in the table too.
  class Asleep {
   public:
    Asleep(Impl& impl, WaitId id, Sleeper& self) UNISONO_REQUIRES(impl.mutex)
        : impl_(impl), id_(id) {
      impl_.sleepers.emplace(id, &self);
    }
    ~Asleep() UNISONO_NO_ANALYSIS {  // the lock is taken before and released after
      impl_.sleepers.erase(id_);
      impl_.table.cancelWait(id_);
    }
    Asleep(const Asleep&) = delete;
    Asleep& operator=(const Asleep&) = delete;

   private:
    Impl& impl_;
    const WaitId id_;
  };

  void endSleepers() UNISONO_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    closing = true;
    for (const auto& [id, sleeper] : sleepers) {
      sleeper->ended = true;
      sleeper->awake = true;
      sleeper->changed.notifyAll();
    }
  }
};

HashStore::HashStore() : impl_(std::make_unique<Impl>()) {}

HashStore::~HashStore() {
  if (impl_->madeIn.inChild()) {
    static_cast<void>(impl_.release());  // the parent's: its locks may have been held
    return;
  }
  impl_->gate.close();
  impl_->endSleepers();
  impl_->gate.waitEmpty();
}

void HashStore::set(std::string_view key, BytesView value) {
  impl_->write("set", key, [&](KvTable& table) { return table.set(key, asText(value)); });
}

void HashStore::append(std::string_view key, BytesView value) {
  impl_->write("append", key, [&](KvTable& table) { return table.append(key, asText(value)); });
}

void HashStore::queuePush(std::string_view key, BytesView value) {
  impl_->write("queue_push", key, [&](KvTable& table) { return table.push(key, asText(value)); });
}

void HashStore::multiSet(std::span<const std::string> keys, std::span<const Bytes> values) {
  checkSameSize(keys, values);
  requireKeys("multi_set", keys);
  std::vector<std::string_view> texts;
  for (const Bytes& value : values) {
    texts.push_back(asText(value));
  }
  const std::string_view first = keys.empty() ? std::string_view() : keys.front();
  impl_->write("multi_set", first,
               [&](KvTable& table) { return table.multiSet(views(keys), texts); });
}

std::int64_t HashStore::add(std::string_view key, std::int64_t delta) {
  requireKey("add", key);
  return valueOr("add", key, impl_->with([&](KvTable& table) { return table.add(key, delta); }));
}

Bytes HashStore::compareSet(std::string_view key, BytesView expected, BytesView desired) {
  return trySwap(key, expected, desired).value;
}

Store::Swap HashStore::trySwap(std::string_view key, BytesView expected, BytesView desired) {
  requireKey("compare_set", key);
  return impl_->with([&](KvTable& table) {
    const auto compared =
        valueOr("compare_set", key, table.compareSet(key, asText(expected), asText(desired)));
    return Swap{.value = toBytes(compared.value),
                .stored = compared.outcome == KvTable::Compared::Outcome::STORED};
  });
}

bool HashStore::deleteKey(std::string_view key) {
  requireKey("delete_key", key);
  return impl_->with([&](KvTable& table) { return table.remove(key); });
}

std::int64_t HashStore::deletePrefix(std::string_view prefix) {
  requireKey("delete_prefix", prefix);
  return impl_->with([&](KvTable& table) { return table.removePrefix(prefix); });
}

bool HashStore::check(std::span<const std::string> keys) {
  requireKeys("check", keys);
  return impl_->with([&](KvTable& table) { return table.allPresent(views(keys)); });
}

std::int64_t HashStore::numKeys() {
  return impl_->with([](KvTable& table) { return static_cast<std::int64_t>(table.size()); });
}

std::vector<std::string> HashStore::listKeys() {
  return impl_->with([](KvTable& table) {
    const std::vector<std::string_view> keys = table.keys();
    return std::vector<std::string>(keys.begin(), keys.end());
  });
}

std::int64_t HashStore::queueLen(std::string_view key) {
  requireKey("queue_len", key);
  return impl_->with(
      [&](KvTable& table) { return static_cast<std::int64_t>(table.queueLength(key)); });
}

void HashStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  const auto begin = [&](KvTable& table, WaitId id) {
    return valueOr("wait", "keys", table.wait(id, views(keys), WaitFor::PRESENCE));
  };
  if (!impl_->waitFor("wait", keys, timeout, begin, [](Wake&) {})) {
    throwWaitTimeout("wait", keys, timeout, kNobodyHere);
  }
}

Bytes HashStore::get(std::string_view key) {
  const std::vector<std::string> keys = {std::string(key)};
  return std::move(waitForValues("get", keys).front());
}

std::vector<Bytes> HashStore::multiGet(std::span<const std::string> keys) {
  return waitForValues("multi_get", keys);
}

std::vector<Bytes> HashStore::waitForValues(std::string_view op,
                                            std::span<const std::string> keys) {
  std::vector<Bytes> values;
  // Taken when the last of them appears, by whoever sets it: it may be deleted again before the
  // waiting thread runs.
  const KvTable* source = nullptr;
  const auto take = [&] {
    for (const std::string& key : keys) {
      values.push_back(toBytes(*source->find(key)));
    }
  };
  const auto begin = [&](KvTable& table, WaitId id) {
    source = &table;
    const bool satisfied = valueOr(op, "keys", table.wait(id, views(keys), WaitFor::VALUES));
    if (satisfied) {
      take();
    }
    return satisfied;
  };
  const Milliseconds limit = timeout();
  if (!impl_->waitFor(op, keys, limit, begin, [&](Wake&) { take(); })) {
    throwWaitTimeout(op, keys, limit, kNobodyHere);
  }
  return values;
}

Bytes HashStore::queuePop(std::string_view key, bool block) {
  requireKey("queue_pop", key);
  if (!block) {
    const auto element = impl_->with([&](KvTable& table) { return table.pop(key); });
    return element ? toBytes(*element) : (throwQueueEmpty(key), Bytes{});
  }
  const std::vector<std::string> keys = {std::string(key)};
  std::optional<std::string> element;
  const auto begin = [&](KvTable& table, WaitId id) {
    element = valueOr("queue_pop", key, table.popOrWait(id, key));
    return element.has_value();
  };
  const Milliseconds limit = timeout();
  const auto onWake = [&](Wake& wake) { element = std::move(wake.element); };
  if (!impl_->waitFor("queue_pop", keys, limit, begin, onWake)) {
    throwWaitTimeout("queue_pop", keys, limit, kNobodyHere);
  }
  return toBytes(*element);
}

void HashStore::barrier(std::string_view key, std::int64_t worldSize,
                        std::chrono::milliseconds timeout) {
  const std::vector<std::string> keys = {std::string(key)};
  const auto begin = [&](KvTable& table, WaitId id) {
    return valueOr("barrier", key, table.arrive(id, key, worldSize));
  };
  if (!impl_->waitFor("barrier", keys, timeout, begin, [](Wake&) {})) {
    throwBarrierTimeout(key, worldSize, timeout);
  }
}

std::shared_ptr<Store> HashStore::clone() {
  const Gate::Pass pass(impl_->gate, "HashStore");
  const std::shared_ptr<HashStore> self = weak_from_this().lock();
  UNISONO_CHECK(self, "HashStore::clone returns the same object, so a shared_ptr must hold it");
  return self;
}

}  // namespace unisono
