#include "unisono/store/prefix_store.hpp"

#include <utility>

#include "base/check.hpp"

namespace unisono {

PrefixStore::PrefixStore(std::string prefix, StorePtr store)
    : prefix_(std::move(prefix)), store_(std::move(store)) {
  UNISONO_CHECK(store_ != nullptr, "PrefixStore: store argument cannot be None (null)");
}

PrefixStore::~PrefixStore() = default;

std::string PrefixStore::under(std::string_view key) const {
  return str(prefix_, "/", key);
}

std::vector<std::string> PrefixStore::under(std::span<const std::string> keys) const {
  std::vector<std::string> joined;
  joined.reserve(keys.size());
  for (const std::string& key : keys) {
    joined.push_back(under(key));
  }
  return joined;
}

void PrefixStore::set(std::string_view key, BytesView value) {
  store_->set(under(key), value);
}

Bytes PrefixStore::get(std::string_view key) {
  return store_->get(under(key));
}

Bytes PrefixStore::compareSet(std::string_view key, BytesView expected, BytesView desired) {
  return store_->compareSet(under(key), expected, desired);
}

Store::Swap PrefixStore::trySwap(std::string_view key, BytesView expected, BytesView desired) {
  return store_->trySwap(under(key), expected, desired);
}

std::int64_t PrefixStore::add(std::string_view key, std::int64_t delta) {
  return store_->add(under(key), delta);
}

bool PrefixStore::deleteKey(std::string_view key) {
  return store_->deleteKey(under(key));
}

std::int64_t PrefixStore::deletePrefix(std::string_view prefix) {
  return store_->deletePrefix(under(prefix));
}

bool PrefixStore::check(std::span<const std::string> keys) {
  return store_->check(under(keys));
}

void PrefixStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  store_->wait(under(keys), timeout);
}

std::int64_t PrefixStore::numKeys() {
  return store_->numKeys();
}

std::vector<std::string> PrefixStore::listKeys() {
  const std::string start = under("");
  std::vector<std::string> keys;
  for (const std::string& key : store_->listKeys()) {
    if (key.starts_with(start)) {
      keys.push_back(key.substr(start.size()));
    }
  }
  return keys;
}

void PrefixStore::append(std::string_view key, BytesView value) {
  store_->append(under(key), value);
}

std::vector<Bytes> PrefixStore::multiGet(std::span<const std::string> keys) {
  return store_->multiGet(under(keys));
}

void PrefixStore::multiSet(std::span<const std::string> keys, std::span<const Bytes> values) {
  store_->multiSet(under(keys), values);
}

void PrefixStore::queuePush(std::string_view key, BytesView value) {
  store_->queuePush(under(key), value);
}

Bytes PrefixStore::queuePop(std::string_view key, bool block) {
  return store_->queuePop(under(key), block);
}

std::int64_t PrefixStore::queueLen(std::string_view key) {
  return store_->queueLen(under(key));
}

bool PrefixStore::hasExtendedApi() const {
  return store_->hasExtendedApi();
}

std::string PrefixStore::serverHost() const {
  return store_->serverHost();
}

std::shared_ptr<Store> PrefixStore::clone() {
  return std::make_shared<PrefixStore>(prefix_, store_->clone());
}

std::chrono::milliseconds PrefixStore::timeout() const {
  return store_->timeout();
}

void PrefixStore::setTimeout(std::chrono::milliseconds timeout) {
  store_->setTimeout(timeout);
}

StorePtr PrefixStore::underlyingNonPrefixStore() const {
  StorePtr store = store_;
  while (const auto* nested = dynamic_cast<const PrefixStore*>(store.get())) {
    store = nested->underlyingStore();
  }
  return store;
}

}  // namespace unisono
