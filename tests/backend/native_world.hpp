// NativeWorld: a group of native backends, whose ranks are threads of the test; or, with
// TEST_RANKS=processes in the environment, processes that are used again by worlds of the same
// kind.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <unistd.h>
#include <vector>

#include "unisono/store/hash_store.hpp"

#include "backend/native/native_backend.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/process_world.hpp"
#include "support/thread_world.hpp"

namespace unisono::test {

class NativeWorld {
 public:
  explicit NativeWorld(int size, const BackendOptions& options = {.groupName = "g"})
      : options_(options), ranks_(static_cast<std::size_t>(size)) {
    if (ProcessWorld::asked()) {
      return;
    }
    const auto store = std::make_shared<HashStore>();
    rethrow(onThreads(size, [&](int rank) {
      ranks_[static_cast<std::size_t>(rank)] = std::make_shared<NativeBackend>(
          BackendParams{.store = store, .rank = rank, .size = size, .options = options});
    }));
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  NativeBackend& operator[](int rank) {
    if (ProcessWorld::asked()) {
      throw std::logic_error("ranks that are processes are reached in outcomes() only");
    }
    return *ranks_[static_cast<std::size_t>(rank)];
  }
  /// What keeps this rank in the group; from now on it is the caller's.
  std::shared_ptr<NativeBackend> take(int rank) {
    return std::move(ranks_[static_cast<std::size_t>(rank)]);
  }
  /// From now on this rank has left.
  void drop(int rank) { ranks_[static_cast<std::size_t>(rank)].reset(); }

  void run(const std::function<void(NativeBackend&)>& body) { rethrow(outcomes(body)); }
  /// Runs `body` on all ranks that have not left; what each has thrown, null for nothing.
  std::vector<std::exception_ptr> outcomes(const std::function<void(NativeBackend&)>& body) {
    if (ProcessWorld::asked()) {
      return inProcesses(body);
    }
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

  std::vector<std::exception_ptr> inProcesses(const std::function<void(NativeBackend&)>& body) {
    return ProcessWorld(size()).outcomes([&](int rank) {
      body(ProcessWorld::kept<NativeBackend>(kind(), [&] {
        return std::make_shared<NativeBackend>(BackendParams{
            .store = ProcessWorld::store(), .rank = rank, .size = size(), .options = options_});
      }));
    });
  }
  /// All that makes a backend what it is.
  std::string kind() const {
    std::string all = str(size(), " ", options_.groupName, " ", options_.timeout.count());
    for (const int rank : options_.globalRanks) {
      all += str(" ", rank);
    }
    for (char** each = environ; *each != nullptr; ++each) {
      if (std::string_view(*each).starts_with("UNISONO_")) {
        all += str(" ", *each);
      }
    }
    return all;
  }

  const BackendOptions options_;
  std::vector<std::shared_ptr<NativeBackend>> ranks_;
};

}  // namespace unisono::test
