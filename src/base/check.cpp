#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace unisono::detail {

void failDcheck(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "unisono: broken assumption at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace unisono::detail
