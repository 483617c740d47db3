// MeshWorld: a group that reaches itself by TCP, whose ranks are threads of the test.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "unisono/store/hash_store.hpp"

#include "base/random.hpp"
#include "base/str.hpp"
#include "support/thread_world.hpp"
#include "transport/mesh/courier.hpp"

namespace unisono::test {

inline std::string describeCall(const Call& call) {
  return str("test ", call.count);
}

/// What makes a rank of a group over TCP.
struct MeshRank {
  MeshRank(const mesh::MeshOptions& options, int cores)
      : mesh(mesh::Mesh::form(options)),
        courier(std::make_unique<mesh::Courier>(*mesh, cores, describeCall)) {}
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<mesh::Courier> courier;
};

inline mesh::MeshOptions meshOptions(const StorePtr& store, int rank, int size,
                                     const std::string& cookie,
                                     Milliseconds timeout = std::chrono::seconds(20)) {
  return {.meet = {.store = store,
                   .rank = rank,
                   .size = size,
                   .group = "g",
                   .cookie = cookie,
                   .timeout = timeout},
          .settings = ""};
}

class MeshWorld {
 public:
  explicit MeshWorld(int size, int cores = 0) : ranks_(static_cast<std::size_t>(size)) {
    const auto store = std::make_shared<HashStore>();
    const std::string cookie = randomId();
    rethrow(onThreads(size, [&](int rank) {
      ranks_[static_cast<std::size_t>(rank)] = std::make_unique<MeshRank>(
          meshOptions(store, rank, size, cookie), cores > 0 ? cores : size);
    }));
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  mesh::Courier& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]->courier; }
  mesh::Mesh& mesh(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->mesh; }
  /// From now on this rank has left.
  void drop(int rank) { ranks_[static_cast<std::size_t>(rank)].reset(); }

  void run(const std::function<void(mesh::Courier&)>& body) { rethrow(outcomes(body)); }
  std::vector<std::exception_ptr> outcomes(const std::function<void(mesh::Courier&)>& body) {
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
  std::vector<std::unique_ptr<MeshRank>> ranks_;
};

inline Call testCall(std::uint32_t signature = 1, Milliseconds timeout = std::chrono::seconds(20)) {
  return {.name = "test", .signature = signature, .count = signature, .timeout = timeout};
}

/// Runs `body` as one operation.
template <typename Body>
void operate(Communicator& comm, Body body, const Call& call = testCall()) {
  comm.begin(call);
  try {
    body();
  } catch (...) {
    comm.end(false);
    throw;
  }
  comm.end(true);
}

}  // namespace unisono::test
