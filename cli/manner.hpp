// Manner: how a command is to speak, which the same options say to every one of them.
#pragma once

#include <string>

namespace unisono::cli {

struct Manner {
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  std::string color = "auto";
};

}  // namespace unisono::cli
