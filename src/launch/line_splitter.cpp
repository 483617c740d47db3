#include "launch/line_splitter.hpp"

namespace unisono::launch {
namespace {

/// The length of the first line of `text` with its end, looking from `from` on; 0 when it has not
/// ended yet. A "\r" that is last might be the first half of "\r\n".
std::size_t lengthOfLine(std::string_view text, std::size_t from) {
  const std::size_t end = text.find_first_of("\r\n", from);
  if (end == std::string_view::npos) {
    return 0;
  }
  if (text[end] == '\n') {
    return end + 1;
  }
  if (end + 1 == text.size()) {
    return 0;
  }
  return text[end + 1] == '\n' ? end + 2 : end + 1;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const OnLine& onLine) {
  rest_ += bytes;
  const std::string_view text = rest_;
  std::size_t begin = 0;
  std::size_t from = searched_;
  while (const std::size_t length = lengthOfLine(text.substr(begin), from)) {
    onLine(text.substr(begin, length));
    begin += length;
    from = 0;
  }
  for (; text.size() - begin > kLongest; begin += kLongest) {
    onLine(text.substr(begin, kLongest));
  }
  rest_.erase(0, begin);
  // A "\r" at the end must be looked at again, with what follows it.
  searched_ = rest_.ends_with('\r') ? rest_.size() - 1 : rest_.size();
}

void LineSplitter::finish(const OnLine& onLine) {
  if (!rest_.empty()) {
    onLine(rest_);
  }
  rest_.clear();
  searched_ = 0;
}

}  // namespace unisono::launch
