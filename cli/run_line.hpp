// RunLine: where the words of `unisono run` end and those of the program that it starts begin.
//
// What follows the program's name is the program's, whatever it looks like. The parser of the
// command line would take options from it, and change some of its words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace unisono::cli {

struct RunLine {
  std::vector<std::string> ours;
  std::vector<std::string> program;  // empty for other commands
};

/// Splits `words`, a command line without its first word. For `run`, options with underscores in
/// place of dashes are put right, and the options that variables give (UNISONO_RUN_NNODES, …,
/// else torchrun's: PET_NNODES, …) come before those of the line.
RunLine splitRunLine(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace unisono::cli
