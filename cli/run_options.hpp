// The options of `unisono run`: those of torchrun, by its names, and ours.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manner.hpp"

namespace unisono::cli {

struct RunArgs : Manner {
  std::string workers = "1";
  bool module = false;
  bool noPython = false;
  std::string threads = "auto";
  std::string input = "0";
  std::vector<std::string> variables;
  std::string prefix;  // empty: as befits the number of nodes

  int maxRestarts = 0;
  double grace = 30;
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

  std::string logDir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string shown;
  std::string outputWords;
  std::string errorWords;

  std::string nodes = "1";
  int nodeRank = 0;
  std::string masterAddress = "127.0.0.1";
  std::optional<std::uint16_t> masterPort;
  std::string endpoint;
  std::string bind;
  std::string localAddress;
  std::string interface;
  std::string runId;
  std::string backend = "static";
  std::string role = "default";
  bool standalone = false;
  std::string rendezvousConfig;
  std::string binding;
  bool virtualLocalRank = false;
  std::vector<std::string> idle;  // the options that were given and change nothing here

  bool dryRun = false;
};

/// Lets `command` take them into `args`, which must live as long.
void takeRunOptions(CLI::App& command, RunArgs& args);

}  // namespace unisono::cli
