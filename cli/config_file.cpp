#include "config_file.hpp"

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "words.hpp"

namespace unisono::cli {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuseFile(const std::string& file, const std::string& why) {
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("the file of --config, ", file, ", ", why),
                    .hint = "give a JSON object with long names of options: {\"port\": 29500}"});
}

/// The command that the line names, and how many words it takes to name it.
struct Named {
  const CLI::App* command;
  std::size_t words;
};

/// Nullptr if there is none of that name.
const CLI::App* commandBelow(const CLI::App& app, const std::string& name) {
  const auto isIt = [&](const CLI::App* command) { return command->get_name() == name; };
  const std::vector<const CLI::App*> found = app.get_subcommands(isIt);
  return found.empty() ? nullptr : found.front();
}

Named namedCommand(const CLI::App& program, const std::vector<std::string>& words) {
  Named named{.command = &program, .words = 0};
  while (true) {  // ends with the words, or with the last command among them
    const std::size_t next = skipOptions(*named.command, words, named.words);
    const CLI::App* below =
        next < words.size() ? commandBelow(*named.command, words[next]) : nullptr;
    if (below == nullptr) {
      return named;
    }
    named = {.command = below, .words = next + 1};
  }
}

/// The word after the last --config, if there is one.
std::optional<std::string> configFile(const CLI::App& command,
                                      const std::vector<std::string>& words) {
  const std::string begin = str(kConfigOption, "=");
  std::optional<std::string> file;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].starts_with(begin)) {
      file = words[i].substr(begin.size());
    } else if (isOption(words[i]) && valueFollows(command, words[i]) && i + 1 < words.size()) {
      ++i;
      file = words[i - 1] == kConfigOption ? words[i] : file;
    }
  }
  return file;
}

Json readObject(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    refuseFile(file, str("cannot be read: ", std::generic_category().message(errno)));
  }
  const Json object = Json::parse(stream, nullptr, false);
  if (!object.is_object()) {
    refuseFile(file, object.is_discarded() ? "is not JSON" : "is JSON, but no object");
  }
  return object;
}

/// The words that give the option `name` the value `value`.
void append(std::vector<std::string>& words, const std::string& file, const std::string& name,
            const Json& value) {
  if (value.is_array()) {
    for (const Json& one : value) {
      append(words, file, name, one);
    }
  } else if (value.is_object()) {
    refuseFile(file, str("gives the option '", name, "' an object"));
  } else if (value.is_boolean()) {
    if (value.get<bool>()) {
      words.push_back("--" + name);
    }
  } else if (!value.is_null()) {
    words.push_back(
        str("--", name, "=", value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

/// The options of `file`; one that `command` does not have is refused with the nearest it has.
std::vector<std::string> optionsOf(const std::string& file, const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  std::vector<std::string> words;
  const Json object = readObject(file);
  for (const auto& [name, value] : object.items()) {
    if (command.get_option_no_throw("--" + name) == nullptr) {
      const std::string_view meant =
          nearest(name, std::vector<std::string_view>(known.begin(), known.end()));
      refuseFile(file, str("has '", name, "', which is no option of ", command.get_name(),
                           meant.empty() ? "" : str("; did you mean ", meant, "?")));
    }
    append(words, file, name, value);
  }
  return words;
}

}  // namespace

std::vector<std::string> withConfig(const CLI::App& program,
                                    const std::vector<std::string>& words) {
  const Named named = namedCommand(program, words);
  const std::optional<std::string> file = configFile(*named.command, words);
  if (!file) {
    return words;
  }
  const std::vector<std::string> given = optionsOf(*file, *named.command);
  std::vector<std::string> all = words;
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(named.words), given.begin(), given.end());
  return all;
}

}  // namespace unisono::cli
