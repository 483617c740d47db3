// The commands of the unisono program: each adds itself to the parser and runs when chosen.
#pragma once

#include <CLI/CLI.hpp>

#include "exit_code.hpp"

namespace unisono::cli {

/// What commands share: where they leave the exit code.
struct Context {
  int exitCode = OK;
};

void addStore(CLI::App& program, Context& context);
void addStoreBench(CLI::App& store, Context& context);
void addInfo(CLI::App& program, Context& context);
void addCompletion(CLI::App& program, Context& context);

}  // namespace unisono::cli
