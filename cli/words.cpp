#include "words.hpp"

#include <algorithm>

#include "base/str.hpp"

namespace unisono::cli {

bool isOption(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

bool takesValue(const CLI::Option* option) {
  return option != nullptr && option->get_items_expected_min() > 0;
}

bool valueFollows(const CLI::App& app, const std::string& word) {
  if (word.starts_with("--")) {
    return word.find('=') == std::string::npos && takesValue(app.get_option_no_throw(word));
  }
  for (std::size_t i = 1; i < word.size(); ++i) {  // -vn 4
    if (takesValue(app.get_option_no_throw(str("-", word.substr(i, 1))))) {
      return i + 1 == word.size();
    }
  }
  return false;
}

std::size_t skipOptions(const CLI::App& app, const std::vector<std::string>& words,
                        std::size_t begin) {
  while (begin < words.size() && isOption(words[begin]) && words[begin] != "--") {
    begin += valueFollows(app, words[begin]) ? 2 : 1;
  }
  return std::min(begin, words.size());
}

}  // namespace unisono::cli
