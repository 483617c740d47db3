// The commands of the unisono program: each adds itself to the parser and runs when chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "exit_code.hpp"
#include "manner.hpp"

namespace unisono::cli {

/// What commands share: how they are to speak, and where they leave the exit code.
struct Context {
  Manner manner;
  std::vector<std::string> toStart;  // the words of the command line that are a program's
  int exitCode = OK;
};

struct Args;  // of the verbs; verbs/verbs.hpp

/// What comes before every command: signals are watched, colours and log are as `manner` says.
void begin(const Manner& manner);

/// --timeout, with what it is said to mean.
void takeTimeout(CLI::App& command, Args& args, const char* help);

// Each adds its command. The options that all commands have are added to them in program.cpp.
void addRun(CLI::App& program, Context& context);
void addBench(CLI::App& program, Context& context);
void addStore(CLI::App& program, Context& context);
void addStoreBench(CLI::App& store, Context& context);
void addDoctor(CLI::App& program, Context& context);
void addInfo(CLI::App& program, Context& context);
void addCompletion(CLI::App& program, Context& context);

}  // namespace unisono::cli
