// How much a test tries. Sanitizers make everything several times slower: there a part is enough of
// what only repeats with other numbers.
#pragma once

namespace unisono::test {

#ifdef UNISONO_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// `all`, or under a sanitizer `part`.
template <typename T>
constexpr T effort(T all, T part) {
  return kSanitized ? part : all;
}

}  // namespace unisono::test
