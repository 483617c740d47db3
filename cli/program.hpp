// The program as a function.
#pragma once

namespace unisono::cli {

/// Does what the command line says; returns the exit code.
int runProgram(int argc, char** argv);

}  // namespace unisono::cli
