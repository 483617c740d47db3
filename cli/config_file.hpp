// --config FILE: options of a command that are kept in a file.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace unisono::cli {

inline constexpr const char* kConfigOption = "--config";

/// `words`, a command line without its first word, and behind the name of its command the options
/// that the file after --config gives: what the line says itself goes before them. The file is a
/// JSON object whose keys are long names of options; a list gives an option several times, true is
/// a flag that is given, false and null give nothing. Throws UsageError.
std::vector<std::string> withConfig(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace unisono::cli
