// Several processes meet through a store: each says who it is, sees the others, and leaves when
// all have been seen. Usage: example_meet tcp://127.0.0.1:29500 RANK WORLD

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "unisono/unisono.hpp"

namespace {

void meet(const std::string& endpoint, int rank, int world) {
  const unisono::RendezvousUrl url = unisono::parseRendezvousUrl(endpoint);
  unisono::TCPStore store(url.host, {.port = static_cast<std::uint16_t>(url.port.value())});

  const auto name = [](int of) { return "meet/name/" + std::to_string(of); };
  store.set(name(rank), "C++ process " + std::to_string(::getpid()));
  for (int other = 0; other < world; ++other) {
    if (other != rank) {
      std::printf("rank %d sees rank %d: %s\n", rank, other, store.getString(name(other)).c_str());
    }
  }
  if (store.add("meet/count", 1) == world) {
    store.set("meet/done", "everybody was here");
  }
  std::printf("rank %d leaves: %s\n", rank, store.getString("meet/done").c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s tcp://HOST:PORT RANK WORLD\n", argv[0]);
    return 2;
  }
  try {
    meet(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  } catch (const unisono::DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
