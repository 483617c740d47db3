// Two ranks meet through a store: ranks.sh 2 example_store_names. Rank 0 runs the server.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "unisono/unisono.hpp"

namespace {

void meet(int rank, std::uint16_t port) {
  unisono::TCPStore store("127.0.0.1", {.port = port, .isServer = rank == 0, .numWorkers = 2});
  store.set("name/" + std::to_string(rank), rank == 0 ? "Anna" : "Bela");
  const std::string other = store.getString("name/" + std::to_string(1 - rank));  // waits for it
  store.barrier("met", 2);
  std::printf("rank %d met %s\n", rank, other.c_str());
}

int numberIn(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

int main() {
  meet(numberIn("RANK"), static_cast<std::uint16_t>(numberIn("MASTER_PORT")));
}
