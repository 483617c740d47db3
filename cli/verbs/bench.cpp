// unisono store bench: how fast the store is, also beside others.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bench/environment.hpp"
#include "bench/store/compare.hpp"
#include "bench/store/picture.hpp"
#include "command.hpp"
#include "net/accept.hpp"
#include "net/secret.hpp"
#include "number.hpp"
#include "store/endpoint.hpp"
#include "terminal.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

struct BenchOptions {
  bench::Plan plan;
  double seconds = 0.5;
  Args args;  // endpoint, timeout, json and how much to say
  std::vector<std::string> compareWith;
  std::string python;
  std::string plot;
};

/// What was measured, and under which circumstances.
struct Report {
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<bench::Row> rows;
  std::vector<bench::MissingPeer> missing;
  std::vector<std::pair<std::string, std::string>> peers;  // name; version and note
};

/// The server at the endpoint that was given, once it has answered.
bench::Peer peerAt(const Args& args) {
  const Endpoint place = parseEndpoint(args.endpoint);
  if (!place.file.empty() || !place.prefix.empty()) {
    throw UsageError(
        {.reason = Reason::USAGE,
         .what = str("bench cannot measure ", args.endpoint, ": ",
                     place.file.empty() ? "it measures a server as a whole, without a prefix"
                                        : "it measures servers, and this is a file"),
         .hint = "write tcp://host:port, or leave it out to measure a server of its own"});
  }
  if (jobSecret()) {  // its clients speak as PyTorch's do
    throw UsageError({.reason = Reason::USAGE,
                      .what = str("bench cannot measure ", args.endpoint,
                                  " with a secret: its clients have no way to prove it"),
                      .hint = "leave the endpoint out to measure a server of its own, which has "
                              "none; or unset UNISONO_AUTH_SECRET_FILE and UNISONO_AUTH_SECRET"});
  }
  static_cast<void>(openTarget(args, Missing::REFUSE).store->numKeys());
  return {.target = {.name = "endpoint",
                     .dialect = bench::Dialect::TORCH,
                     .host = place.host,
                     .port = place.port},
          .version = {},
          .note = args.endpoint,
          .process = {}};
}

void tellSlowStart(const std::string& name, Milliseconds since, Milliseconds patience) {
  complain(str(name, " has been starting for ", since.count() / 1000,
               " s; it will be left out after ", formatDuration(patience)));
}

std::vector<bench::Peer> startPeers(const BenchOptions& options, Report& report) {
  std::vector<bench::Peer> peers;
  if (options.args.endpoint.empty()) {  // it is to serve those who cannot prove a secret
    ::unsetenv("UNISONO_AUTH_SECRET_FILE");
    ::unsetenv("UNISONO_AUTH_SECRET");
  }
  peers.push_back(options.args.endpoint.empty() ? bench::startUnisono() : peerAt(options.args));
  for (const std::string& name : options.compareWith) {
    bench::PeerOptions how{.python =
                               options.python.empty() ? bench::nearestPython() : options.python};
    if (!options.args.quiet) {
      how.slow = tellSlowStart;
    }
    if (auto peer = bench::startPeer(name, how, &report.missing)) {
      peers.push_back(*std::move(peer));
    }
  }
  for (const bench::Peer& peer : peers) {
    report.peers.emplace_back(peer.target.name, str(peer.version, " (", peer.note, ")"));
  }
  return peers;
}

void showProgress(std::size_t done, std::size_t all) {
  if (::isatty(STDERR_FILENO) != 0) {
    std::fprintf(stderr, done < all ? "\rmeasuring %zu of %zu" : "\r\033[K", done + 1, all);
  }
}

nlohmann::ordered_json asJson(const Report& report, const BenchOptions& options) {
  nlohmann::ordered_json document = {{"schema", "unisono-store-bench/1"}};
  for (const auto& [name, value] : report.environment) {
    document["environment"][name] = value;
  }
  document["rounds"] = options.plan.rounds;
  document["seconds"] = options.seconds;
  document["value_size"] = options.plan.valueSize;
  document["peers"] = nlohmann::ordered_json::object();
  for (const auto& [name, about] : report.peers) {
    document["peers"][name] = about;
  }
  document["missing"] = nlohmann::ordered_json::object();
  for (const bench::MissingPeer& missing : report.missing) {
    document["missing"][missing.name] = missing.why;
  }
  document["rows"] = nlohmann::ordered_json::array();
  for (const bench::Row& row : report.rows) {
    nlohmann::ordered_json line = {{"peer", row.peer},
                                   {"verb", row.verb},
                                   {"clients", row.clients},
                                   {"depth", row.depth},
                                   {"ops_per_s", row.figures.opsPerSecond},
                                   {"p50_us", row.figures.p50Us},
                                   {"p99_us", row.figures.p99Us},
                                   {"ratio", nullptr}};
    if (row.ratio) {
      line["ratio"] = *row.ratio;
      line["ratio_range"] = {row.ratioLeast, row.ratioMost};
    }
    document["rows"].push_back(line);
  }
  return document;
}

/// One line of the table, laid out as printf does.
template <typename... Cells>
std::string cells(const char* format, Cells... values) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

void printCircumstances(const Report& report) {
  for (const auto& list : {report.environment, report.peers}) {
    for (const auto& [name, value] : list) {
      printLine(cells("%-12s ", name.c_str()) + value);
    }
  }
  for (const bench::MissingPeer& missing : report.missing) {
    printLine(cells("%-12s left out: ", missing.name.c_str()) + missing.why);
  }
  printLine("");
}

void printTable(const Report& report) {
  printLine(cells("%-10s %-7s %8s %6s %12s %9s %9s %7s  %s", "peer", "verb", "clients", "depth",
                  "requests/s", "p50 us", "p99 us", "ratio", "range"));
  for (const bench::Row& row : report.rows) {
    const std::string figures = cells(
        "%-10s %-7s %8zu %6zu %12.0f %9.1f %9.1f", row.peer.c_str(), row.verb.c_str(), row.clients,
        row.depth, row.figures.opsPerSecond, row.figures.p50Us, row.figures.p99Us);
    const std::string ratio =
        row.ratio ? cells(" %7.2f  %.2f to %.2f", *row.ratio, row.ratioLeast, row.ratioMost) : "";
    printLine(figures + ratio);
  }
  if (report.peers.size() > 1) {
    printLine(str("\nratio: the rate of ", report.peers.front().first,
                  " over that of the peer, the median of the rounds"));
  }
}

/// Before hours of work: whether its picture can be saved afterwards.
void refuseUnwritable(const std::string& file) {
  if (std::error_code none; std::filesystem::is_directory(file, none)) {
    throw FileFailure(str("cannot write ", file, ": ", errnoText(EISDIR)));
  }
  const bool there = ::access(file.c_str(), F_OK) == 0;
  const std::string folder = std::filesystem::path(file).parent_path();
  const char* asked = there ? file.c_str() : folder.empty() ? "." : folder.c_str();
  if (::access(asked, W_OK) != 0) {
    throw FileFailure(str("cannot write ", file, ": ", errnoText(errno)));
  }
}

void savePicture(const Report& report, const std::string& file) {
  std::string caption;
  for (const auto& [name, value] : report.environment) {
    if (name == "processor" || name == "cores" || name == "date") {
      caption += str(caption.empty() ? "" : " · ", name == "cores" ? str(value, " cores") : value);
    }
  }
  std::ofstream out(file);
  out << bench::drawRates(report.rows, caption) << std::flush;
  if (!out) {
    throw FileFailure(str("cannot write ", file, ": ", errnoText(errno)));
  }
}

/// Before servers are started: whether all clients can be connected at once. The limit is raised as
/// far as the system lets us; its server, a process of its own, does the same.
void refuseTooManyClients(const bench::Plan& plan) {
  constexpr std::size_t kForOthers = 64;  // files, pipes to the servers, the loop
  raiseDescriptorLimit();
  const std::size_t clients = *std::max_element(plan.clients.begin(), plan.clients.end());
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= clients + kForOthers) {
    return;
  }
  throw UsageError(
      {.reason = Reason::RESOURCE,
       .what = str("bench with ", clients, " clients needs ", clients + kForOthers,
                   " open files, but this process may have ", limit.rlim_cur, " (RLIMIT_NOFILE)"),
       .hint = str("raise the limit (ulimit -Hn ", clients + kForOthers,
                   ", as root or in limits.conf), or measure fewer: --clients 16")});
}

/// Before servers are started: whether what is under way at once can be held. The clients' side
/// keeps the requests of one of them; a server may come to keep all the replies.
void refuseTooMuchAtOnce(const bench::Plan& plan) {
  constexpr double kMebi = 1024.0 * 1024;
  constexpr double kMost = 1024 * kMebi;
  constexpr std::size_t kSmall = 16;  // what other verbs send and get
  const bool hasValues = std::any_of(plan.verbs.begin(), plan.verbs.end(), [](const auto& verb) {
    return verb == "get" || verb == "set";
  });
  const std::size_t clients = *std::max_element(plan.clients.begin(), plan.clients.end());
  const std::size_t depth = *std::max_element(plan.depths.begin(), plan.depths.end());
  const std::size_t bytes = hasValues ? std::max(plan.valueSize, kSmall) : kSmall;
  const double all =
      static_cast<double>(clients) * static_cast<double>(depth) * static_cast<double>(bytes);
  if (all <= kMost) {
    return;
  }
  throw UsageError(
      {.reason = Reason::USAGE,
       .what = str("bench cannot have ", depth, " requests of ", formatBytes(bytes),
                   " from each of ", clients, clients == 1 ? " client" : " clients",
                   " under way at once: that is ", static_cast<std::uint64_t>(all / kMebi),
                   " MiB, and ", static_cast<std::uint64_t>(kMost / kMebi), " at most"),
       .hint = "lower --depth, --value-size or --clients"});
}

int run(BenchOptions options) {
  begin(options.args);
  refuseTooMuchAtOnce(options.plan);
  refuseTooManyClients(options.plan);
  if (!options.plot.empty()) {
    refuseUnwritable(options.plot);
  }
  options.plan.duration = fromSeconds(options.seconds);
  if (options.args.timeout) {
    options.plan.patience = fromSeconds(*options.args.timeout);
  }
  Report report{.environment = bench::environment(), .rows = {}, .missing = {}, .peers = {}};
  const std::vector<bench::Peer> peers = startPeers(options, report);
  report.rows = bench::compare(peers, options.plan,
                               options.args.quiet ? [](std::size_t, std::size_t) {} : showProgress);
  if (options.args.json) {
    printLine(asJson(report, options).dump(2));
  } else {
    if (options.args.quiet) {
      for (const bench::MissingPeer& missing : report.missing) {
        complain(str(missing.name, " was left out: ", missing.why));
      }
    } else {
      printCircumstances(report);
    }
    printTable(report);
  }
  if (!options.plot.empty()) {
    savePicture(report, options.plot);
  }
  return OK;
}

}  // namespace

void addStoreBench(CLI::App& store, Context& context) {
  CLI::App* command = store.add_subcommand("bench", "Measure how fast a store server is");
  const auto options = std::make_shared<BenchOptions>();
  bench::Plan& plan = options->plan;
  const auto positive = wholeNumber(1, 100'000);
  command->add_option("--clients", plan.clients, "Numbers of clients, one after the other")
      ->delimiter(',')
      ->transform(positive)
      ->capture_default_str();
  command->add_option("--depth", plan.depths, "Requests that each client sends at once")
      ->delimiter(',')
      ->transform(positive)
      ->capture_default_str();
  command->add_option("--verbs", plan.verbs, "What to ask for: add, get, set, check")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::verbs()))
      ->capture_default_str();
  command->add_option("--value-size", plan.valueSize, "Bytes of the value that is set and got")
      ->transform(wholeNumber(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--rounds", plan.rounds, "How often everything is measured")
      ->transform(wholeNumber(1, 1000))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Length of one measurement")
      ->check(seconds(0.01, 60))
      ->capture_default_str();
  command->add_option(
      "-e,--endpoint", options->args.endpoint,
      "Measure this server (tcp://host:port or env://) instead of one started for it");
  takeTimeout(*command, options->args,
              "Seconds after which a server that does not answer is given up (default: 5, and 20 "
              "while it is measured)");
  command
      ->add_option("--compare", options->compareWith,
                   "Also start and measure others, in turns: torch, redis")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::peerNames()));
  command->add_option("--python", options->python,
                      "A Python that has torch [.venv/bin/python, or python3]");
  command->add_option("--plot", options->plot, "Also draw the rates into this file (SVG)");
  command->footer("Example:\n  unisono store bench --clients 1,16,128 --compare torch,redis");
  command->callback([options, &context] {
    static_cast<Manner&>(options->args) = context.manner;
    context.exitCode = run(*options);
  });
}

}  // namespace unisono::cli
