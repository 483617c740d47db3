// The smallest use of a store: one process serves it, and uses it like everybody else.

#include <cstdio>

#include "unisono/unisono.hpp"

int main() {
  unisono::TCPStore store("127.0.0.1", {.port = 0, .isServer = true});
  store.set("greeting", "hello from rank 0");
  std::printf("%s, visitor number %ld\n", store.getString("greeting").c_str(),
              static_cast<long>(store.add("visitors", 1)));
}
