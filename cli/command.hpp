// The commands of the unisono program: each adds itself to the parser and runs when chosen.
#pragma once

#include <CLI/CLI.hpp>

namespace unisono::cli {

/// How the program ends; docs/command_line.md lists them.
enum ExitCode : int {
  OK = 0,
  FAILURE = 1,      // what was asked did not succeed
  USAGE_ERROR = 2,  // the words on the command line
  UNREACHABLE = 3,  // cannot reach or listen
  TIMED_OUT = 4,
  SIGNALED = 128,  // plus the number of the signal
};

/// What commands share: where they leave the exit code.
struct Context {
  int exitCode = OK;
};

/// To be called when something has been printed: throws when it could not be written.
void flushOutput();

void addStore(CLI::App& program, Context& context);
void addStoreBench(CLI::App& store, Context& context);
void addInfo(CLI::App& program, Context& context);

}  // namespace unisono::cli
