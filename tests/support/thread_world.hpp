// ThreadWorld: a group whose ranks are threads of the test.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/shm/arena.hpp"
#include "transport/shm/segment.hpp"

namespace unisono::test {

struct ThreadWorldOptions {
  int cores = 0;  // what the ranks believe to have; 0: as many as there are ranks
  Milliseconds timeout = std::chrono::seconds(20);
};

class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks, const ThreadWorldOptions& options = {});

  int size() const noexcept { return static_cast<int>(segments_.size()); }
  shm::Segment& segment(int rank) { return *segments_.at(static_cast<std::size_t>(rank)); }
  shm::Arena& arena(int rank) { return *arenas_.at(static_cast<std::size_t>(rank)); }

  /// Runs `body` once for every rank, each on a thread of its own. Throws what the lowest rank
  /// that threw has thrown.
  void run(const std::function<void(shm::Arena&)>& body);

  /// The same, and returns what each rank threw (null for none).
  std::vector<std::exception_ptr> outcomes(const std::function<void(shm::Arena&)>& body);

 private:
  std::vector<std::unique_ptr<shm::Segment>> segments_;
  std::vector<std::unique_ptr<shm::Arena>> arenas_;
};

/// Runs `body(rank)` on `count` threads; what each threw. With TEST_HOSTS=3 in the environment they
/// are spread over so many hosts, as far as they know.
std::vector<std::exception_ptr> onThreads(int count, const std::function<void(int)>& body);

/// The cores that the calling thread may run on.
std::vector<int> allowedCores();
/// From now on the calling thread runs on `core` only, and threads that it starts do.
void pinTo(int core);

/// An operation called "test", about which all ranks agree when they give the same `signature`.
shm::Announcement announcement(std::uint32_t signature = 1,
                               Milliseconds timeout = std::chrono::seconds(20));

/// Runs `body` as one operation.
template <typename Body>
void operate(shm::Arena& arena, Body body, bool heardAll = true, std::uint32_t signature = 1) {
  arena.begin(announcement(signature));
  body();
  arena.end(heardAll);
}

}  // namespace unisono::test
