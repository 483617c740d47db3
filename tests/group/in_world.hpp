// A world whose ranks are threads of the test.
#pragma once

#include <functional>
#include <memory>

#include "unisono/group/group.hpp"
#include "unisono/store/hash_store.hpp"

#include "support/thread_world.hpp"

namespace unisono::test {

/// Runs `body` as rank after rank, each on a thread of its own. Throws what the lowest rank that
/// threw has thrown.
inline void inWorld(int size, const std::function<void(Group)>& body, InitOptions options = {}) {
  options.store = std::make_shared<HashStore>();
  options.size = size;
  for (const std::exception_ptr& thrown : onThreads(size, [&](int rank) {
         InitOptions own = options;
         own.rank = rank;
         body(init(own));
       })) {
    if (thrown) {
      std::rethrow_exception(thrown);
    }
  }
}

}  // namespace unisono::test
