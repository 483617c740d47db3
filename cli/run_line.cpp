#include "run_line.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "base/str.hpp"

namespace unisono::cli {
namespace {

bool takesValue(const CLI::Option* option) {
  return option != nullptr && option->get_items_expected_min() > 0;
}

/// Whether the value of the option `word` is the next word.
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

bool isOption(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

/// The first word from `begin` on that is neither an option nor its value.
std::size_t skipOptions(const CLI::App& app, const std::vector<std::string>& words,
                        std::size_t begin) {
  while (begin < words.size() && isOption(words[begin]) && words[begin] != "--") {
    begin += valueFollows(app, words[begin]) ? 2 : 1;
  }
  return std::min(begin, words.size());
}

/// torchrun takes --max_restarts for --max-restarts.
std::string withDashes(const CLI::App& app, const std::string& word) {
  const std::size_t end = std::min(word.find('='), word.size());
  std::string name = word.substr(0, end);
  std::replace(name.begin(), name.end(), '_', '-');
  const bool isKnown = word.starts_with("--") && app.get_option_no_throw(name) != nullptr;
  return isKnown ? name + word.substr(end) : word;
}

std::vector<std::string> fromEnvironment(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      std::string variable = "PET_" + name;
      std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) {
        return c == '-' ? '_' : static_cast<char>(std::toupper(c));
      });
      const char* value = std::getenv(variable.c_str());
      if (value != nullptr && takesValue(option)) {
        words.push_back(str("--", name, "=", value));
      } else if (value != nullptr && std::string_view(value) == "1") {
        words.push_back("--" + name);
      }
    }
  }
  return words;
}

}  // namespace

RunLine splitRunLine(const CLI::App& program, const std::vector<std::string>& words) {
  const std::size_t command = skipOptions(program, words, 0);
  if (command == words.size() || words[command] != "run") {
    return {.ours = words, .program = {}};
  }
  const CLI::App& run = *program.get_subcommand("run");
  RunLine line{.ours = {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(command) + 1},
               .program = {}};
  const std::vector<std::string> given = fromEnvironment(run);
  line.ours.insert(line.ours.end(), given.begin(), given.end());
  std::vector<std::string> rest;
  bool isValue = false;
  for (auto word = words.begin() + static_cast<std::ptrdiff_t>(command) + 1; word != words.end();
       ++word) {
    rest.push_back(isValue ? *word : withDashes(run, *word));
    if (!isValue && (!isOption(*word) || *word == "--")) {
      rest.insert(rest.end(), word + 1, words.end());
      break;
    }
    isValue = !isValue && valueFollows(run, rest.back());
  }
  const std::size_t end = skipOptions(run, rest, 0);
  const bool marked = end < rest.size() && rest[end] == "--";
  const auto cut = rest.begin() + static_cast<std::ptrdiff_t>(end);
  line.ours.insert(line.ours.end(), rest.begin(), cut);
  line.program.assign(cut + (marked ? 1 : 0), rest.end());
  return line;
}

}  // namespace unisono::cli
