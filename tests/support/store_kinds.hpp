// The kinds of stores that the conformance tests run on.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "unisono/store/store.hpp"

namespace unisono::test {

/// A store, and what must live as long as it: a server, a folder. Destroyed in the right order.
struct MadeStore {
  std::shared_ptr<void> support;
  StorePtr store;
};

/// One kind of store: how to make a fresh one, and in what it differs from the others.
struct StoreKind {
  std::string name;
  std::function<MadeStore()> make;
  int ownKeys = 0;  // that numKeys() counts beside the user's
  bool hasQueues = true;
  bool cloneIsSelf = false;     // clone() returns the same data and the same timeout
  bool serverBarrier = true;    // barrier() leaves one key behind, not two
  std::string keyPrefix = "/";  // in front of the user's key in messages
};

const std::vector<StoreKind>& storeKinds();

inline std::ostream& operator<<(std::ostream& out, const StoreKind& kind) {
  return out << kind.name;
}

/// A fresh store of every kind; its calls give up after 20 s.
class StoreTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  StoreTest() : made(GetParam().make()), store(*made.store) {
    store.setTimeout(std::chrono::seconds(20));
  }

  const StoreKind& kind() const { return GetParam(); }

  /// Returns when the server knows of `count` waits: a client's thread also sleeps on the way
  /// there. A store without a server knows of every call that sleeps.
  void awaitWaits(std::size_t count) const;

  MadeStore made;
  Store& store;
};

inline std::string kindName(const ::testing::TestParamInfo<StoreKind>& info) {
  return info.param.name;
}

}  // namespace unisono::test
