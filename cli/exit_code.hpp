// How the program ends; docs/command_line.md lists the codes.
#pragma once

namespace unisono::cli {

enum ExitCode : int {
  OK = 0,
  FAILURE = 1,      // what was asked did not succeed
  USAGE_ERROR = 2,  // the words on the command line
  UNREACHABLE = 3,  // cannot reach or listen
  TIMED_OUT = 4,
  RANK_FAILED = 5,  // of a job
  NOT_TRUSTED = 6,  // one side does not know the other's secret
  SIGNALED = 128,   // plus the number of the signal
};

}  // namespace unisono::cli
