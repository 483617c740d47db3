// The words of a command line before the parser sees them: options, and the values of options.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace unisono::cli {

bool isOption(const std::string& word);

bool takesValue(const CLI::Option* option);

/// Whether the value of the option `word` is the next word.
bool valueFollows(const CLI::App& app, const std::string& word);

/// The first word from `begin` on that is neither an option of `app` nor its value.
std::size_t skipOptions(const CLI::App& app, const std::vector<std::string>& words,
                        std::size_t begin);

}  // namespace unisono::cli
