// NativeWorld: a group of native backends, whose ranks are threads of the test.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "unisono/store/hash_store.hpp"

#include "backend/native/native_backend.hpp"
#include "store/expect.hpp"
#include "support/thread_world.hpp"

namespace unisono::test {

class NativeWorld {
 public:
  explicit NativeWorld(int size, const BackendOptions& options = {.groupName = "g"})
      : ranks_(static_cast<std::size_t>(size)) {
    const auto store = std::make_shared<HashStore>();
    rethrow(onThreads(size, [&](int rank) {
      ranks_[static_cast<std::size_t>(rank)] = std::make_shared<NativeBackend>(
          BackendParams{.store = store, .rank = rank, .size = size, .options = options});
    }));
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  NativeBackend& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  /// What keeps this rank in the group; from now on it is the caller's.
  std::shared_ptr<NativeBackend> take(int rank) {
    return std::move(ranks_[static_cast<std::size_t>(rank)]);
  }
  /// From now on this rank has left.
  void drop(int rank) { ranks_[static_cast<std::size_t>(rank)].reset(); }

  void run(const std::function<void(NativeBackend&)>& body) { rethrow(outcomes(body)); }
  /// Runs `body` on all ranks that have not left; what each has thrown, null for nothing.
  std::vector<std::exception_ptr> outcomes(const std::function<void(NativeBackend&)>& body) {
    return onThreads(size(), [&](int rank) {
      if (ranks_[static_cast<std::size_t>(rank)]) {
        body((*this)[rank]);
      }
    });
  }

 private:
  static void rethrow(const std::vector<std::exception_ptr>& thrown) {
    for (const std::exception_ptr& each : thrown) {
      if (each) {
        std::rethrow_exception(each);
      }
    }
  }
  std::vector<std::shared_ptr<NativeBackend>> ranks_;
};

}  // namespace unisono::test
