// unisono store serve: a server until somebody ends it.

#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unistd.h>

#include "base/str.hpp"
#include "net/address.hpp"
#include "store/common.hpp"
#include "store/tcp/entrance.hpp"
#include "store/tcp/server.hpp"
#include "terminal.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

/// Blocks the signals that end the server, for all threads, and waits for one of them.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    struct sigaction hangUp {};
    ::sigaction(SIGHUP, nullptr, &hangUp);
    if (hangUp.sa_handler != SIG_IGN) {  // ignored: nohup means that it stays
      sigaddset(&set_, SIGHUP);
    }
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  int wait() const {
    int signal = 0;
    ::sigwait(&set_, &signal);
    return signal;
  }

 private:
  sigset_t set_{};
};

void announce(const ServeArgs& args, const tcp::StoreServer& server, bool hasSecret) {
  const std::string endpoint = str("tcp://", HostPort{args.host, server.port()}.text());
  if (args.json) {
    const nlohmann::json line = {{"schema", "unisono-store-serve/1"},
                                 {"endpoint", endpoint},
                                 {"host", args.host},
                                 {"port", server.port()},
                                 {"loop", args.loop},
                                 {"secret", hasSecret},
                                 {"pid", ::getpid()}};
    printLine(line.dump());
  } else if (args.quiet) {
    printLine(endpoint);
  } else {
    printLine(str("serving the store at ", endpoint,
                  hasSecret ? " to those who know the secret (pid " : " (pid ", ::getpid(),
                  "); Ctrl-C ends it"));
  }
  flushOutput();
}

}  // namespace

int serve(const ServeArgs& args) {
  doWithoutOutput();
  const EndSignals signals;
  int signal = 0;
  const std::optional<Key> key = tcp::storeKey();
  {
    const tcp::StoreServer server({.host = args.host,
                                   .port = args.port,
                                   .useLibUv = args.loop == "libuv",
                                   .limits = tcp::serverLimits(),
                                   .key = key},
                                  Deadline::after(defaultTimeout()));
    announce(args, server, key.has_value());
    signal = signals.wait();
  }
  if (!args.json && !args.quiet) {
    printLine(str("ended by signal ", signal));
  }
  return SIGNALED + signal;
}

}  // namespace unisono::cli
