// StoreAdapter: any store of PyTorch's, as one of ours.
//
// The ranks of a group meet by the store that PyTorch gives, whatever it is: TCPStore, FileStore,
// HashStore, a prefix of one, or a Python class. That one takes the interpreter's lock for itself,
// so calls are to be made without it.
//
// Thread safety: that of the store behind it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "unisono/store/store.hpp"

#include "errors.hpp"

namespace unisono::plugin {

class StoreAdapter final : public Store {
 public:
  explicit StoreAdapter(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, BytesView value) override {
    askingTorch("set", [&] { store_->set(std::string(key), copyOf(value)); });
  }

  /// Waits by wait(): the timeout of the store behind this belongs to its other users.
  Bytes get(std::string_view key) override {
    const std::string name(key);
    wait(std::span(&name, 1), timeout());
    return askingTorch("get", [&] { return store_->get(name); });
  }

  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override {
    return askingTorch("compare_set", [&] {
      return store_->compareSet(std::string(key), copyOf(expected), copyOf(desired));
    });
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return askingTorch("add", [&] { return store_->add(std::string(key), delta); });
  }

  /// A store written in Python cannot delete: PyTorch looks for the method under another name than
  /// it has in all others. What is not deleted harms nobody.
  bool deleteKey(std::string_view key) override {
    return askingTorch("delete_key", [&] {
      try {
        return store_->deleteKey(std::string(key));
      } catch (const std::runtime_error& error) {
        if (std::string_view(error.what()).find("pure virtual") == std::string_view::npos) {
          throw;
        }
        return false;
      }
    });
  }

  bool check(std::span<const std::string> keys) override {
    return askingTorch("check", [&] { return store_->check(copyOf(keys)); });
  }

  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    if (timeout.count() > 0) {
      askingTorch("wait", [&] { store_->wait(copyOf(keys), timeout); });
    } else if (!check(keys)) {  // there, 0 would be without limit
      throw DistStoreError({.reason = Reason::TIMEOUT,
                            .what = "PyTorch's store: wait timeout after 0ms",
                            .op = "wait"});
    }
  }

  std::int64_t numKeys() override {
    return askingTorch("num_keys", [&] { return store_->getNumKeys(); });
  }

  /// Other stores than a TCPStore say nothing; then it is where rank 0 is, if that is known.
  std::string serverHost() const override {
    c10::intrusive_ptr<c10d::Store> bare = store_;
    if (auto* const prefix = dynamic_cast<c10d::PrefixStore*>(store_.get())) {
      bare = prefix->getUnderlyingNonPrefixStore();
    }
    if (const auto* const tcp = dynamic_cast<const c10d::TCPStore*>(bare.get())) {
      return tcp->getHost();
    }
    const char* const master = std::getenv("MASTER_ADDR");
    return master == nullptr ? std::string() : master;
  }

  std::shared_ptr<Store> clone() override {
    return askingTorch("clone", [&] { return std::make_shared<StoreAdapter>(store_->clone()); });
  }

 private:
  static Bytes copyOf(BytesView bytes) { return {bytes.begin(), bytes.end()}; }
  static std::vector<std::string> copyOf(std::span<const std::string> keys) {
    return {keys.begin(), keys.end()};
  }

  const c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace unisono::plugin
