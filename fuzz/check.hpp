// What fuzz targets share: a broken promise is a crash.
#pragma once

#include <cstdio>
#include <cstdlib>

/// Stops the fuzzer with a line that says what was broken.
#define FUZZ_EXPECT(condition)                                                     \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)
