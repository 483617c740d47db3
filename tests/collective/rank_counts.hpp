// Of how many ranks the groups are that every way to do an operation is tried with.
#pragma once

namespace unisono::test {

// Under sanitizers all of them take minutes; these go every way there is.
#ifdef UNISONO_SANITIZED
inline constexpr int kRankCounts[] = {1, 2, 5, 8};
#else
inline constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
#endif

}  // namespace unisono::test
