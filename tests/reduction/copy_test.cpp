#include "reduction/copy.hpp"

#include <gtest/gtest.h>
#include <vector>

#include "reduction/instruction_set.hpp"

namespace unisono {
namespace {

using Copy = void (*)(std::byte*, const std::byte*, std::size_t);

/// Copies between guarded places, `toShift` and `fromShift` bytes after a multiple of 64.
void expectCopies(Copy copy, std::size_t bytes, std::size_t toShift, std::size_t fromShift) {
  constexpr std::size_t kGuard = 128;
  constexpr std::byte kUntouched{0xA5};
  std::vector<std::byte> from(bytes + fromShift);
  std::vector<std::byte> to(bytes + toShift + 2 * kGuard, kUntouched);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 7 + i / 251);
  }

  copy(to.data() + kGuard + toShift, from.data() + fromShift, bytes);

  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t at = i - kGuard - toShift;
    const bool inside = i >= kGuard + toShift && at < bytes;
    ASSERT_EQ(to[i], inside ? from[fromShift + at] : kUntouched)
        << i << " of " << bytes << " bytes, shifted by " << toShift << " and " << fromShift;
  }
}

TEST(CopyTest, CopiesExactlyWhatWasAskedFor) {
  constexpr std::size_t kSizes[] = {0, 1, 3, 64, 100, 4095, 4096, 4097, 4351, 9000, 70001};
  constexpr std::size_t kShifts[] = {0, 1, 16, 63};
  for (const std::string& set : instructionSets()) {
    useInstructionSet(set);
    for (const std::size_t bytes : kSizes) {
      for (const std::size_t shift : kShifts) {
        expectCopies(copyBytes, bytes, shift, 5);
        expectCopies(copyStream, bytes, shift, 5);
        expectCopies(copyStream, bytes, 7, shift);
      }
    }
  }
  useBestInstructionSet();
}

TEST(CopyTest, NothingMayBeCopiedFromNowhere) {
  copyBytes(nullptr, nullptr, 0);
  copyStream(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace unisono
