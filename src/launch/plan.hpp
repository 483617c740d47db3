// Plan: which process of a job is started how. Nothing here starts anything.
//
// The environment of a rank is what torchrun 2.13 gives for the same options, so that scripts
// written for it see no difference.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/binding.hpp"
#include "net/address.hpp"

namespace unisono::launch {

/// Standard streams, as the digits of torchrun's --redirects and --tee say: 1, 2 or both.
enum : unsigned { STDOUT_BIT = 1, STDERR_BIT = 2 };

/// The streams chosen for each local rank: a digit for all ("3") or one for some ("0:1,1:2").
/// Throws UsageError naming `option` when `text` is neither.
std::vector<unsigned> parseStreams(std::string_view option, std::string_view text, int workers);

/// Whether each local rank is in `text`, as torchrun's --local-ranks-filter has it: "0,2"; all when
/// it is empty. Throws UsageError naming `option` when it makes no sense.
std::vector<bool> parseRanks(std::string_view option, std::string_view text, int workers);

using Variables = std::map<std::string, std::string, std::less<>>;

/// Who reads what is given to the launcher.
enum class Input : std::uint8_t { RANK_0, ALL, NOBODY };

/// What the user asked for.
struct Job {
  int workers = 1;  // on this node, as on every other
  int nodes = 1;
  int nodeRank = 0;
  int maxRestarts = 0;
  int threads = 0;  // for OMP_NUM_THREADS, if nobody has set it; 0: leave it alone
  std::string role = "default";
  std::string runId;
  std::string signals;  // as in SIGTERM,SIGINT
  HostPort store;       // of node 0; port 0: one that is free
  std::string bind;     // where it listens instead; empty: there
  std::vector<std::string> command;
  std::vector<unsigned> redirects;       // by local rank: to a file instead of the console
  std::vector<unsigned> tee;             // by local rank: to a file and the console
  std::vector<bool> shown;               // by local rank: whether the console shows anything of it
  std::vector<std::string> outputWords;  // of what is teed, lines with one of these go into a file
  std::vector<std::string> errorWords;   // the same for what is printed to standard error
  Input input = Input::RANK_0;
  Variables variables;  // for every rank, beside ours
  Binding binding = Binding::NONE;
  bool virtualLocalRank = false;  // each is told to be the first on its node, with a GPU of its own
  std::string localAddress;       // of this node, for ranks of others; empty: it is found out
  std::string interface;          // at which they are reached; empty: it is found out

  int worldSize() const noexcept { return workers * nodes; }
  int rankOf(int localRank) const noexcept { return nodeRank * workers + localRank; }
};

/// Where the ranks of this node find what they need.
struct Places {
  HostPort master;         // where they reach the store, PyTorch's clients as well
  HostPort store;          // the store itself, for who knows the secret
  std::string secretFile;  // empty: they have the secret of the launcher, or none
  std::string ownAddress;  // of this node, for ranks of others; empty: they find it
};

/// The variables that a rank gets beside those of the launcher.
Variables variablesOf(const Job& job, int localRank, int attempt, const Places& places,
                      const std::string& errorFile);

/// The GPU that a local rank is to see, as torchrun has it: one of CUDA_VISIBLE_DEVICES where that
/// is set, else that of its number. Throws UsageError when there are not as many.
std::string visibleDevice(int localRank);

/// "NAME=value" for all of `base` and `more`; of two with one name that of `more`.
std::vector<std::string> environmentWith(const Variables& more, const char* const* base);

/// How the words of the user are to be understood.
enum class Program : std::uint8_t {
  BY_NAME,  // by Python when it ends in .py, else as it is
  MODULE,   // python -m
  AS_IS,
};

/// The command that `words` (at least one) stand for, its first word a path. Throws UsageError when
/// there is no such program or script, or it cannot be executed.
std::vector<std::string> commandFor(Program kind, const std::vector<std::string>& words);

/// The number of the signal called `name` ("SIGTERM" or "TERM"); nothing if there is none.
std::optional<int> signalNumber(std::string_view name);
/// "SIGTERM"; "signal 42" for one without a name.
std::string signalName(int number);

}  // namespace unisono::launch
