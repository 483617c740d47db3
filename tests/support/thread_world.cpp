#include "support/thread_world.hpp"

#include <cstdlib>
#include <numeric>
#include <sched.h>
#include <thread>

#include "unisono/store/hash_store.hpp"

#include "base/host.hpp"
#include "base/str.hpp"

namespace unisono::test {
namespace {

std::string describePost(const shm::Post& post) {
  return str("test ", post.call);
}

}  // namespace

std::vector<std::exception_ptr> onThreads(int count, const std::function<void(int)>& body) {
  const char* asked = std::getenv("TEST_HOSTS");
  const int hosts = asked == nullptr ? 0 : std::atoi(asked);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      const PretendedHost host(hosts > 0 ? str("host", rank * hosts / count) : std::string());
      try {
        body(rank);
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return thrown;
}

ThreadWorld::ThreadWorld(int ranks, const ThreadWorldOptions& options)
    : segments_(static_cast<std::size_t>(ranks)) {
  const auto store = std::make_shared<HashStore>();
  for (const std::exception_ptr& thrown : onThreads(ranks, [&](int rank) {
         segments_[static_cast<std::size_t>(rank)] =
             shm::Segment::form({.store = store,
                                 .rank = rank,
                                 .size = ranks,
                                 .group = "test",
                                 .settings = "",
                                 .timeout = options.timeout});
       })) {
    if (thrown) {
      std::rethrow_exception(thrown);
    }
  }
  std::vector<int> globalRanks(static_cast<std::size_t>(ranks));
  std::iota(globalRanks.begin(), globalRanks.end(), 0);
  for (const auto& segment : segments_) {
    arenas_.push_back(std::make_unique<shm::Arena>(
        *segment, shm::ArenaOptions{.cores = options.cores > 0 ? options.cores : ranks,
                                    .globalRanks = globalRanks,
                                    .describe = describePost}));
  }
}

std::vector<std::exception_ptr> ThreadWorld::outcomes(
    const std::function<void(shm::Arena&)>& body) {
  return onThreads(size(), [&](int rank) { body(arena(rank)); });
}

void ThreadWorld::run(const std::function<void(shm::Arena&)>& body) {
  for (const std::exception_ptr& thrown : outcomes(body)) {
    if (thrown) {
      std::rethrow_exception(thrown);
    }
  }
}

std::vector<int> allowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) {
      cores.push_back(core);
    }
  }
  return cores;
}

void pinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

shm::Announcement announcement(std::uint32_t signature, Milliseconds timeout) {
  return {.name = "test", .signature = signature, .timeout = timeout};
}

}  // namespace unisono::test
