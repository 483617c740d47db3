#include "launch/plan.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::launch {
namespace {

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw UsageError({.reason = Reason::USAGE, .what = std::move(what), .hint = std::move(hint)});
}

bool isFile(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode);
}

/// The file that a shell would start for `name`; empty if there is none.
std::string findProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return isFile(name) ? name : "";
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  std::string forbidden;  // found, but not to be executed
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
    const std::string candidate = str(folder.empty() ? "." : folder, "/", name);
    if (!name.empty() && isFile(candidate)) {
      if (::access(candidate.c_str(), X_OK) == 0) {
        return candidate;
      }
      forbidden = candidate;
    }
  }
  return forbidden;
}

std::string executable(const std::string& name) {
  const std::string found = findProgram(name);
  if (found.empty()) {
    const bool isHere = name.find('/') == std::string::npos && isFile(name);
    refuse(str("there is no program '", name, "'", isHere ? " on the PATH" : ""),
           isHere ? str("write ./", name) : "check its name, and that of the folder");
  }
  if (::access(found.c_str(), X_OK) != 0) {
    refuse(str("cannot execute ", found, ": ", errnoText(errno)), str("chmod +x ", found));
  }
  return found;
}

/// The interpreter that the program was installed with, else the one on the PATH.
std::string python() {
  if (const char* chosen = std::getenv("PYTHON_EXEC"); chosen != nullptr && *chosen != '\0') {
    return executable(chosen);
  }
  std::array<char, PATH_MAX> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
  const std::string_view program(self.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::string beside = str(program.substr(0, program.rfind('/') + 1), "python3");
  if (size > 0 && isFile(beside) && ::access(beside.c_str(), X_OK) == 0) {
    return beside;
  }
  return executable("python3");
}

std::string_view nameIn(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

std::vector<unsigned> parseStreams(std::string_view option, std::string_view text, int workers) {
  std::vector<unsigned> streams(static_cast<std::size_t>(workers), 0);
  const auto digit = [](std::string_view word) {
    return word.size() == 1 && word[0] >= '0' && word[0] <= '3';
  };
  if (digit(text)) {
    streams.assign(streams.size(), static_cast<unsigned>(text[0] - '0'));
    return streams;
  }
  for (std::string_view left = text; !left.empty() || text.empty();) {
    const std::string_view pair = left.substr(0, left.find(','));
    const std::size_t colon = pair.find(':');
    std::size_t rank = 0;
    const char* end = pair.data() + std::min(colon, pair.size());
    const auto [stopped, error] = std::from_chars(pair.data(), end, rank);
    if (colon == std::string_view::npos || error != std::errc() || stopped != end ||
        !digit(pair.substr(colon + 1)) || left.ends_with(',')) {
      refuse(str(option, " ", text, " makes no sense"),
             "give 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or some ranks: 0:3,1:2");
    }
    if (rank < streams.size()) {
      streams[rank] = static_cast<unsigned>(pair.back() - '0');
    }
    left.remove_prefix(std::min(left.size(), pair.size() + 1));
  }
  return streams;
}

std::vector<bool> parseRanks(std::string_view option, std::string_view text, int workers) {
  std::vector<bool> chosen(static_cast<std::size_t>(workers), text.empty());
  for (std::string_view left = text; !left.empty();) {
    const std::string_view word = left.substr(0, left.find(','));
    std::size_t rank = 0;
    const char* end = word.data() + word.size();
    const auto [stopped, error] = std::from_chars(word.data(), end, rank);
    if (error != std::errc() || stopped != end || left.ends_with(',')) {
      refuse(str(option, " ", text, " makes no sense"), "give local ranks: 0,2");
    }
    if (rank < chosen.size()) {
      chosen[rank] = true;
    }
    left.remove_prefix(std::min(left.size(), word.size() + 1));
  }
  return chosen;
}

Variables variablesOf(const Job& job, int localRank, int attempt, const Places& places,
                      const std::string& errorFile) {
  const std::string rank = str(job.rankOf(localRank));
  const std::string world = str(job.worldSize());
  Variables variables = {
      {"RANK", rank},
      {"LOCAL_RANK", str(job.virtualLocalRank ? 0 : localRank)},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", str(job.workers)},
      {"GROUP_RANK", str(job.nodeRank)},
      {"GROUP_WORLD_SIZE", str(job.nodes)},
      {"ROLE_NAME", job.role},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", world},
      {"MASTER_ADDR", places.master.host},
      {"MASTER_PORT", str(places.master.port)},
      {"TORCHELASTIC_RESTART_COUNT", str(attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", str(job.maxRestarts)},
      {"TORCHELASTIC_RUN_ID", job.runId},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},  // rank 0 is a client as all others
      {"TORCHELASTIC_ERROR_FILE", errorFile},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", job.signals},
      {"UNISONO_STORE", str("tcp://", places.store.text())},
  };
  variables.insert(job.variables.begin(), job.variables.end());
  if (job.virtualLocalRank) {
    variables["CUDA_VISIBLE_DEVICES"] = visibleDevice(localRank);
  }
  if (!job.localAddress.empty()) {
    variables["UNISONO_HOST_ADDR"] = job.localAddress;
  }
  if (!job.interface.empty()) {
    variables["UNISONO_IFNAME"] = job.interface;
  }
  if (!places.secretFile.empty()) {
    variables.emplace("UNISONO_AUTH_SECRET_FILE", places.secretFile);
  }
  // The store that they know is on loopback: it does not lead them to their own address.
  if (!places.ownAddress.empty() && job.interface.empty() &&
      std::getenv("UNISONO_HOST_ADDR") == nullptr && std::getenv("UNISONO_IFNAME") == nullptr) {
    variables.emplace("UNISONO_HOST_ADDR", places.ownAddress);
  }
  if (std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING") == nullptr) {
    variables.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  }
  if (job.threads > 0 && std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables.emplace("OMP_NUM_THREADS", str(job.threads));
  }
  return variables;
}

std::string visibleDevice(int localRank) {
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) {
    return str(localRank);
  }
  int rank = 0;
  std::string device;
  for (const char* at = given; *at != '\0' && rank <= localRank; ++at) {
    rank += *at == ',' ? 1 : 0;
    if (rank == localRank && *at != ',' && *at != ' ') {
      device += *at;
    }
  }
  if (rank < localRank) {
    refuse(str("--virtual-local-rank: CUDA_VISIBLE_DEVICES=", given, " has no GPU for local rank ",
               localRank),
           "start as many ranks as there are GPUs");
  }
  return device;
}

std::vector<std::string> environmentWith(const Variables& more, const char* const* base) {
  std::vector<std::string> all;
  for (; *base != nullptr; ++base) {
    if (!more.contains(nameIn(*base))) {
      all.emplace_back(*base);
    }
  }
  for (const auto& [name, value] : more) {
    all.push_back(str(name, "=", value));
  }
  return all;
}

std::vector<std::string> commandFor(Program kind, const std::vector<std::string>& words) {
  const std::string& name = words.front();
  std::vector<std::string> command;
  if (kind == Program::MODULE) {
    command = {python(), "-u", "-m", name};
  } else if (kind == Program::BY_NAME && name.ends_with(".py")) {
    if (!isFile(name)) {
      refuse(str("there is no script '", name, "'"), "check its name, and that of the folder");
    }
    if (::access(name.c_str(), R_OK) != 0) {
      refuse(str("cannot read ", name, ": ", errnoText(errno)), str("chmod +r ", name));
    }
    command = {python(), "-u", name};
  } else {
    command = {executable(name)};
  }
  command.insert(command.end(), words.begin() + 1, words.end());
  return command;
}

std::optional<int> signalNumber(std::string_view name) {
  if (name.starts_with("SIG")) {
    name.remove_prefix(3);
  }
  for (int number = 1; number < NSIG; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && name == known) {
      return number;
    }
  }
  return std::nullopt;
}

std::string signalName(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? str("signal ", number) : str("SIG", name);
}

}  // namespace unisono::launch
