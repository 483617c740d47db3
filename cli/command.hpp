// The commands of the unisono program: each adds itself to the parser and runs when chosen.
#pragma once

#include <CLI/CLI.hpp>

#include "exit_code.hpp"

namespace unisono::cli {

/// What commands share: where they leave the exit code.
struct Context {
  int exitCode = OK;
};

struct Args;  // of the verbs; verbs/verbs.hpp

/// -v, -q and --color, which every command of the store has, and what they bring about.
void takeLoudness(CLI::App& command, Args& args);
void applyLoudness(const Args& args);

/// --timeout, with what it is said to mean.
void takeTimeout(CLI::App& command, Args& args, const char* help);

void addStore(CLI::App& program, Context& context);
void addStoreBench(CLI::App& store, Context& context);
void addInfo(CLI::App& program, Context& context);
void addCompletion(CLI::App& program, Context& context);

}  // namespace unisono::cli
