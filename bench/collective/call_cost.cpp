// call_cost: a small all_reduce through the public interface, and its algorithm alone.
//
//   call_cost public|algorithm CALLS
//
// In a group of one, where nobody is waited for: what a call costs beside the flight of the data.
// Prints nanoseconds per call; scripts/prove.sh call-cost counts instructions, too.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "unisono/store/hash_store.hpp"
#include "unisono/unisono.hpp"

#include "base/host.hpp"
#include "collective/selection.hpp"
#include "transport/shm/arena.hpp"

namespace {

using namespace std::chrono_literals;

template <typename Call>
void measure(long calls, Call call) {
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < calls; ++i) {
    call();
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  std::printf("%.1f\n", took.count() / static_cast<double>(calls));
}

void callPublic(long calls) {
  unisono::Group world =
      unisono::init({.store = std::make_shared<unisono::HashStore>(), .rank = 0, .size = 1});
  float value = 1;
  measure(calls, [&] { world.allReduce(std::span(&value, 1)); });
}

void callAlgorithm(long calls) {
  const auto segment = unisono::shm::Segment::form({.store = std::make_shared<unisono::HashStore>(),
                                                    .rank = 0,
                                                    .size = 1,
                                                    .group = "cost",
                                                    .settings = "",
                                                    .timeout = 10s});
  unisono::shm::Arena arena(*segment, {.cores = unisono::usableCores(), .globalRanks = {0}});
  const auto sum = unisono::Reduction::of(unisono::DType::FLOAT32, unisono::ReduceOp::SUM, 1);
  float value = 1;
  auto* const bytes = reinterpret_cast<std::byte*>(&value);
  measure(calls, [&] {
    arena.begin({.name = "all_reduce", .signature = 1, .timeout = 10s});
    unisono::allreduceLl(arena, {bytes, bytes, 1}, sum);
    arena.end(true);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  const long calls = argc == 3 ? std::atol(argv[2]) : 0;
  if ((what != "public" && what != "algorithm") || calls <= 0) {
    std::fprintf(stderr, "usage: call_cost public|algorithm CALLS\n");
    return 2;
  }
  try {
    what == "public" ? callPublic(calls) : callAlgorithm(calls);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
