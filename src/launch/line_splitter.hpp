// LineSplitter: cuts what a process prints into lines, whatever the pieces it comes in.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace unisono::launch {

/// A line ends with "\n", "\r\n", or a "\r" alone, as progress bars have it. Lines are given with
/// their end, and no byte is changed or left out.
///
/// A line longer than kLongest comes in pieces of that length without an end: somebody who never
/// ends a line must not fill our memory.
class LineSplitter {
 public:
  static constexpr std::size_t kLongest = std::size_t{8} << 20U;

  using OnLine = std::function<void(std::string_view line)>;

  /// Takes `bytes`, and gives the lines that they complete.
  void feed(std::string_view bytes, const OnLine& onLine);

  /// Gives what is left, which has no end, when no more will come.
  void finish(const OnLine& onLine);

 private:
  std::string rest_;          // of a line that has not ended
  std::size_t searched_ = 0;  // so many bytes of it hold no end
};

}  // namespace unisono::launch
