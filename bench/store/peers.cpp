#include "bench/store/peers.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "unisono/base/error.hpp"
#include "unisono/version.hpp"

#include "base/str.hpp"
#include "net/connect.hpp"

namespace unisono::bench {
namespace {

constexpr Milliseconds kStartTime(60'000);
constexpr Milliseconds kNextNotice(10'000);

/// "port" and "version" in a line such as {"port": 29500, "version": "2.13.0"}.
std::string field(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(str("\"", name, "\":"));
  if (at == std::string_view::npos) {
    return "";
  }
  const std::size_t begin = line.find_first_not_of(" \"", at + name.size() + 3);
  return std::string(line.substr(begin, line.find_first_of("\",}", begin) - begin));
}

std::uint16_t portIn(std::string_view line) {
  const std::string text = field(line, "port");
  std::uint16_t port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

/// PyTorch's server looks up the name of everyone who connects, which may take seconds each. A
/// file of hosts that only it sees spares it that.
class HostsEntry {
 public:
  HostsEntry() {
    std::error_code none;
    std::string name = std::filesystem::temp_directory_path(none) / "unisono-hosts-XXXXXX";
    const int fd = ::mkstemp(name.data());
    if (fd >= 0) {
      ::close(fd);
      file_ = name;
      std::ofstream(file_) << "127.0.0.1 localhost\n::1 localhost\n::ffff:127.0.0.1 localhost\n";
    }
  }
  ~HostsEntry() { static_cast<void>(std::remove(file_.c_str())); }
  HostsEntry(const HostsEntry&) = delete;
  HostsEntry& operator=(const HostsEntry&) = delete;

  /// In the child, before it becomes the server.
  void use() const {
    if (::unshare(CLONE_NEWNS) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
      static_cast<void>(::mount(file_.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr));
    }
    ::unlink(file_.c_str());  // what is mounted stays, and nothing is left if we are killed
  }

  static bool isUsedBy(pid_t pid) {
    std::ifstream mounts(str("/proc/", pid, "/mountinfo"));
    for (std::string line; std::getline(mounts, line);) {
      if (line.find(" /etc/hosts ") != std::string::npos &&
          line.find("unisono-hosts") != std::string::npos) {
        return true;
      }
    }
    return false;
  }

 private:
  std::string file_;
};

constexpr const char* kTorchServer = R"(
import json, time
import torch
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, use_libuv=True)
print(json.dumps({"port": store.port, "version": torch.__version__}), flush=True)
while True:
    time.sleep(3600)
)";

/// The first line of `process`, however slow it is within its patience; empty when there is none.
std::string firstLine(const std::string& name, Process& process, const PeerOptions& options) {
  const TimePoint start = systemClock().now();
  const Deadline end = Deadline::after(options.patience);
  Milliseconds step = options.notice;
  while (true) {
    std::string line = process.readLine(std::min(step, end.remaining()));
    if (!line.empty() || process.ended() || end.expired()) {
      return line;
    }
    if (options.slow) {
      options.slow(name, elapsedSince(start), options.patience);
    }
    step = kNextNotice;
  }
}

std::optional<Peer> startTorch(const PeerOptions& options, MissingPeer* missing) {
  const std::string python = findProgram(options.python);
  if (python.empty()) {
    missing->why = str("there is no ", options.python, "; name one that has torch with --python");
    return std::nullopt;
  }
  const HostsEntry hosts;
  Process process(python, {python, "-c", kTorchServer}, [&] { hosts.use(); });
  const std::string line = firstLine("torch", process, options);
  if (line.empty() && !process.ended()) {
    missing->why = str("its server, run by ", python, ", did not start within ",
                       formatDuration(options.patience));
    return std::nullopt;
  }
  if (portIn(line) == 0) {
    missing->why = str(python, " cannot import torch; name one that can with --python");
    return std::nullopt;
  }
  const bool named = HostsEntry::isUsedBy(process.pid());
  return Peer{.target = {.name = "torch", .dialect = Dialect::TORCH, .port = portIn(line)},
              .version = field(line, "version"),
              .note = named ? "libuv server; with a hosts entry of its own for 127.0.0.1, because "
                              "it looks up the name of everyone who connects"
                            : "libuv server; without a hosts entry of its own (that needs root): "
                              "it may be slow while many connect",
              .process = std::move(process)};
}

std::optional<Peer> startRedis(const PeerOptions&, MissingPeer* missing) {
  std::string program = findProgram("redis-server");
  if (program.empty()) {
    // Debian's redis-tools has the same file under this name, and what it is called when it starts
    // decides what it does. The package redis-server would make it a service of the host.
    program = findProgram("redis-check-rdb");
  }
  if (program.empty()) {
    missing->why = "there is no redis-server; install the package redis-tools or redis-server";
    return std::nullopt;
  }
  const std::string version = Process(program, {"redis-server", "--version"}).readLine(kStartTime);
  const std::uint16_t port = freePort();
  Process process(program, {"redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save",
                            "", "--appendonly", "no", "--daemonize", "no"});
  try {
    connectTo("127.0.0.1", port, Deadline::after(kStartTime), kStartTime);
  } catch (const DistNetworkError&) {
    missing->why = str(program, " does not serve");
    return std::nullopt;
  }
  const std::size_t at = version.find("v=");
  return Peer{.target = {.name = "redis", .dialect = Dialect::REDIS, .port = port},
              .version = at == std::string::npos
                             ? version
                             : version.substr(at + 2, version.find(' ', at) - at - 2),
              .note = "without persistence",
              .process = std::move(process)};
}

}  // namespace

Peer startUnisono() {
  Process process("/proc/self/exe", {"unisono", "store", "serve", "--port", "0", "--json"});
  const std::string line = process.readLine(kStartTime);
  if (portIn(line) == 0) {
    throw DistNetworkError({.reason = Reason::RESOURCE,
                            .what = "our own server does not start",
                            .hint = "see why: unisono store serve --port 0"});
  }
  return {.target = {.name = "unisono", .dialect = Dialect::UNISONO, .port = portIn(line)},
          .version = UNISONO_VERSION_STRING,
          .note = "libuv server",
          .process = std::move(process)};
}

const std::vector<std::string>& peerNames() {
  static const std::vector<std::string> names = {"torch", "redis"};
  return names;
}

std::optional<Peer> startPeer(const std::string& name, const PeerOptions& options,
                              std::vector<MissingPeer>* missing) {
  MissingPeer reason{.name = name, .why = {}};
  std::optional<Peer> peer =
      name == "torch" ? startTorch(options, &reason) : startRedis(options, &reason);
  if (!peer) {
    missing->push_back(reason);
  }
  return peer;
}

}  // namespace unisono::bench
