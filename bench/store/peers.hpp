// Peers: the store servers that a benchmark starts and compares.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/process.hpp"
#include "bench/store/load.hpp"

namespace unisono::bench {

/// A server that runs, or that somebody else runs.
struct Peer {
  Target target;
  std::string version;
  std::string note;  // what a reader of the figures should know
  std::optional<Process> process;
};

/// One that cannot be started here.
struct MissingPeer {
  std::string name;
  std::string why;
};

struct PeerOptions {
  std::string python = "python3";  // one that has torch
  Milliseconds patience{60'000};   // with its start: importing torch on a busy machine takes time
  Milliseconds notice{3'000};      // after which `slow` is told, and later again
  /// Told when a peer takes long to start.
  std::function<void(const std::string& name, Milliseconds since, Milliseconds patience)> slow = {};
};

/// Starts our own server, as a process of its own.
Peer startUnisono();

/// Starts "torch" or "redis"; when it cannot be, or takes too long, the reason in `missing`.
std::optional<Peer> startPeer(const std::string& name, const PeerOptions& options,
                              std::vector<MissingPeer>* missing);

/// The names that startPeer() knows.
const std::vector<std::string>& peerNames();

}  // namespace unisono::bench
