// What happens when a rank dies: the others are told who it was, within milliseconds.
//
// Starts three ranks by itself; the last one is killed in the middle of the work.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "unisono/unisono.hpp"

namespace {

constexpr int kRanks = 3;

int work(int rank, const std::string& path) {
  auto store = std::make_shared<unisono::FileStore>(path, kRanks);
  unisono::Group world = unisono::init({.store = store, .rank = rank, .size = kRanks});
  std::vector<float> data(1000, 1.0F);
  try {
    for (int step = 0;; ++step) {
      if (rank == kRanks - 1 && step == 1000) {
        ::kill(::getpid(), SIGKILL);
      }
      world.allReduce(data, {.op = unisono::ReduceOp::AVG});
    }
  } catch (const unisono::DistBackendError& error) {
    std::printf("rank %d: %s\n", rank, error.what());
    return error.culprits() == std::vector<int>{kRanks - 1} ? 0 : 1;
  }
}

}  // namespace

int main() {
  const std::string path = "/tmp/unisono-dead-peer-" + std::to_string(::getpid());
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int outcome = work(rank, path);
      std::fflush(stdout);
      ::_exit(outcome);
    }
    ranks.push_back(child);
  }
  int failed = 0;
  for (const pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    failed += rank != ranks.back() && status != 0 ? 1 : 0;
  }
  ::unlink(path.c_str());
  std::printf("%s\n", failed == 0 ? "both survivors were told" : "somebody was not told");
  return failed;
}
