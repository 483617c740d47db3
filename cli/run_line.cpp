#include "run_line.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "base/log.hpp"
#include "base/str.hpp"
#include "words.hpp"

namespace unisono::cli {
namespace {

constexpr std::string_view kOurs = "UNISONO_RUN_";

/// torchrun takes --max_restarts for --max-restarts.
std::string withDashes(const CLI::App& app, const std::string& word) {
  const std::size_t end = std::min(word.find('='), word.size());
  std::string name = word.substr(0, end);
  std::replace(name.begin(), name.end(), '_', '-');
  const bool isKnown = word.starts_with("--") && app.get_option_no_throw(name) != nullptr;
  return isKnown ? name + word.substr(end) : word;
}

/// nproc-per-node as NPROC_PER_NODE.
std::string asVariable(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return name;
}

/// One of ours that is no option does nothing, which is not to go unnoticed.
void warnOfUnknown(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back(asVariable(name));
    }
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
    std::string_view name(*variable);
    name = name.substr(0, name.find('='));
    if (!name.starts_with(kOurs)) {
      continue;
    }
    name.remove_prefix(kOurs.size());
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string_view meant = nearest(name, known);
      UNISONO_LOG(WARN, "env", "the environment variable ", kOurs, name, " gives no option of run",
                  meant.empty() ? "" : str("; did you mean ", kOurs, meant, "?"));
    }
  }
}

/// Our variable for an option goes before torchrun's.
std::vector<std::string> fromEnvironment(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const char* ours = std::getenv(str(kOurs, asVariable(name)).c_str());
      const char* value =
          ours != nullptr ? ours : std::getenv(str("PET_", asVariable(name)).c_str());
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
  warnOfUnknown(run);
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
