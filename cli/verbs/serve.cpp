// unisono store: the key-value store as a tool.

#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>

#include "base/str.hpp"
#include "command.hpp"
#include "net/address.hpp"
#include "store/common.hpp"
#include "store/tcp/server.hpp"

namespace unisono::cli {
namespace {

struct ServeOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 29500;
  std::string loop = "libuv";
  bool json = false;
};

/// Blocks the signals that end the server, for all threads, and waits for one of them.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
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

void announce(const ServeOptions& options, const tcp::StoreServer& server) {
  const std::string endpoint = str("tcp://", HostPort{options.host, server.port()}.text());
  if (options.json) {
    const nlohmann::json line = {{"schema", "unisono-store-serve/1"},
                                 {"endpoint", endpoint},
                                 {"host", options.host},
                                 {"port", server.port()},
                                 {"loop", options.loop},
                                 {"pid", ::getpid()}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("serving the store at %s (pid %d); Ctrl-C ends it\n", endpoint.c_str(), ::getpid());
  }
  flushOutput();
}

int serve(const ServeOptions& options) {
  const EndSignals signals;
  int signal = 0;
  {
    const tcp::StoreServer server({.host = options.host,
                                   .port = options.port,
                                   .useLibUv = options.loop == "libuv",
                                   .limits = tcp::serverLimits()},
                                  Deadline::after(defaultTimeout()));
    announce(options, server);
    signal = signals.wait();
  }
  if (!options.json) {
    std::printf("ended by signal %d\n", signal);
  }
  return SIGNALED + signal;
}

}  // namespace

void addStore(CLI::App& program, Context& context) {
  CLI::App* store = program.add_subcommand("store", "The key-value store through which ranks meet");
  store->require_subcommand(1);

  CLI::App* command = store->add_subcommand(
      "serve", "Run a store server; PyTorch's TCPStore clients may use it too");
  const auto options = std::make_shared<ServeOptions>();
  command
      ->add_option("--bind", options->host,
                   "Host or address to listen on; beyond loopback it must be permitted with "
                   "UNISONO_ALLOW_UNAUTHENTICATED=1")
      ->capture_default_str();
  command->add_option("--port", options->port, "Port; 0 picks a free one and prints it")
      ->capture_default_str();
  command->add_option("--loop", options->loop, "Event loop")
      ->check(CLI::IsMember({"libuv", "poll"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print the endpoint as one line of JSON");
  command->callback([options, &context] { context.exitCode = serve(*options); });

  addStoreBench(*store, context);
}

}  // namespace unisono::cli
