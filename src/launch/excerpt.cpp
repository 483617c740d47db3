#include "launch/excerpt.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>
#include <utility>

#include "base/log.hpp"
#include "base/str.hpp"
#include "launch/folder.hpp"

namespace unisono::launch {

std::vector<std::string> parseWords(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ',') {
      words.back() += text[at];
    } else if (text.substr(at).starts_with(",,")) {
      words.back() += ',';
      ++at;
    } else {
      words.emplace_back();
    }
  }
  std::erase(words, "");
  return words;
}

Excerpt::Excerpt(const std::string& path, std::vector<std::string> words)
    : file_(makeLogFile(path)), words_(std::move(words)) {}

void Excerpt::take(int rank, std::string_view line) {
  while (line.ends_with('\n') || line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  const bool isWanted = std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
    return line.find(word) != std::string_view::npos;
  });
  if (!isWanted || !file_.valid()) {
    return;
  }
  const std::string whole = str("[", rank, "] ", line, "\n");
  if (::write(file_.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) {
    UNISONO_LOG(WARN, "launch", "a log file is incomplete from here on: ", errnoText(errno));
    file_.reset();
  }
}

}  // namespace unisono::launch
