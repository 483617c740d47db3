// store_load: a store server with very many clients, and with very bad ones.
//
//   store_load [--connections N] [--hostile N] [--seconds S] [--judge] [--json]
//
// It ends with 1 when a bound is missed: with --judge those of the proof; without, as a test, those
// that tell of something that does not work.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "bench/store/load.hpp"
#include "store/limits.hpp"
#include "stress/crowd.hpp"
#include "support/server_process.hpp"

namespace unisono::stress {
namespace {

constexpr std::size_t kHonest = 100;

struct Settings {
  std::size_t connections = 10'000;
  std::size_t hostile = 100;
  double seconds = 5;
  bool judge = false;
  bool json = false;
};

struct Figures {
  double connectSeconds = 0;
  double wakeMs = 0;
  double bytesPerConnection = 0;
  double honestP99Us = 0;
  double attackedP99Us = 0;
  double honestRate = 0;
  double attackedRate = 0;
  std::size_t misdeeds = 0;
  double heldBackMib = 0;      // replies that the server holds for those who take none
  std::uint64_t keyLists = 0;  // of the hostile that arrived as a whole
  double grownMib = 0;         // of the server's memory, when all have gone
  std::ptrdiff_t leftFds = 0;
};

double secondsSince(TimePoint start) {
  return std::chrono::duration<double>(systemClock().now() - start).count();
}

/// Memory that the process really has, in bytes.
double residentBytes(pid_t pid) {
  std::ifstream in(str("/proc/", pid, "/statm"));
  double total = 0;
  double resident = 0;
  in >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::ptrdiff_t openFiles(pid_t pid) {
  const std::filesystem::directory_iterator files(str("/proc/", pid, "/fd"));
  return std::distance(begin(files), end(files));
}

/// As many descriptors as this process may have; the server inherits it.
void raiseLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void wakeAll(Crowd& crowd, TCPStore& setter, Figures& figures) {
  crowd.waitFor("/wake");
  static_cast<void>(setter.numKeys());
  const TimePoint start = systemClock().now();
  setter.set("wake", "up");
  static_cast<void>(setter.check({"wake"}));
  std::size_t woken = 0;
  while (woken < crowd.size() && secondsSince(start) < 60) {
    woken += crowd.takeWoken();
  }
  figures.wakeMs = secondsSince(start) * 1000;
  if (woken != crowd.size()) {
    throw std::runtime_error(str("only ", woken, " of ", crowd.size(), " were woken"));
  }
}

bench::LoadFigures honestWork(const test::ServerProcess& server, double seconds) {
  bench::Load load({.name = "the server", .port = server.port()}, kHonest);
  load.once(bench::exchange(bench::Dialect::UNISONO, "set", 16));
  const bench::Exchange get = bench::exchange(bench::Dialect::UNISONO, "get", 16);
  return load.run(get, 1, fromSeconds(seconds));
}

/// A number in the server's statistics.
std::uint64_t statistic(TCPStore& store, std::string_view name) {
  const std::string all = store.serverStats();
  const std::string start = str("\"", name, "\":");
  const std::size_t at = all.find(start);
  if (at == std::string::npos) {
    throw std::runtime_error(str("the server does not tell its ", name));
  }
  return std::strtoull(all.c_str() + at + start.size(), nullptr, 10);
}

/// Until the attack has done what it is for: a list of very many keys has arrived, and from each
/// of those who take no replies the server has ceased to read. Else it would prove nothing.
void awaitAttack(const Settings& settings, TCPStore& store, std::uint64_t waits, Figures& figures) {
  const double held = static_cast<double>(StoreLimits().unsentPause) *
                      static_cast<double>(settings.hostile / Mob::kKinds);
  const TimePoint start = systemClock().now();
  for (;;) {  // ends when both have happened, or after a minute
    figures.keyLists = statistic(store, "wait") - waits;
    figures.heldBackMib = static_cast<double>(statistic(store, "unsent_bytes")) / (1024 * 1024);
    const bool enough = figures.keyLists > 0 && figures.heldBackMib * 1024 * 1024 >= held;
    if (enough || settings.hostile < Mob::kKinds) {
      return;
    }
    if (secondsSince(start) > 60) {
      throw std::runtime_error(str("the attack was none: ", figures.keyLists, " lists of keys, ",
                                   figures.heldBackMib, " MiB of replies held back"));
    }
    ::usleep(10'000);
  }
}

Figures measure(const Settings& settings) {
  Figures figures;
  raiseLimit();
  test::ServerProcess server;
  TCPStore setter("127.0.0.1", {.port = server.port()});
  const double before = residentBytes(server.pid());
  const std::ptrdiff_t filesBefore = openFiles(server.pid());
  {
    const TimePoint start = systemClock().now();
    Crowd crowd(server.port(), settings.connections);
    figures.connectSeconds = secondsSince(start);
    figures.bytesPerConnection =
        (residentBytes(server.pid()) - before) / static_cast<double>(settings.connections);
    wakeAll(crowd, setter, figures);
    const bench::LoadFigures alone = honestWork(server, settings.seconds);
    const std::uint64_t waits = statistic(setter, "wait");
    setter.set(Mob::kLargeKey, std::string(Mob::kLargeValue, 'x'));
    const Mob mob(server.port(), settings.hostile, 20261116);
    const bench::LoadFigures attacked = honestWork(server, settings.seconds);
    awaitAttack(settings, setter, waits, figures);
    figures.honestP99Us = alone.p99Us;
    figures.honestRate = alone.opsPerSecond;
    figures.attackedP99Us = attacked.p99Us;
    figures.attackedRate = attacked.opsPerSecond;
    figures.misdeeds = mob.misdeeds();
  }
  const TimePoint gone = systemClock().now();
  while (openFiles(server.pid()) != filesBefore && secondsSince(gone) < 20) {
    ::usleep(10'000);
  }
  figures.leftFds = openFiles(server.pid()) - filesBefore;
  figures.grownMib = (residentBytes(server.pid()) - before) / (1024 * 1024);
  return figures;
}

void report(const Settings& settings, const Figures& figures) {
  const char* format =
      settings.json
          ? R"({"schema":"unisono-store-load/1","connections":%zu,"connect_s":%.2f,)"
            R"("wake_all_ms":%.1f,"bytes_per_idle_connection":%.0f,"honest_clients":%zu,)"
            R"("honest_requests_per_s":%.0f,"honest_p99_us":%.0f,"hostile_clients":%zu,)"
            R"("misdeeds":%zu,"key_lists":%)" PRIu64 R"(,"held_back_mib":%.1f,)"
            R"("attacked_requests_per_s":%.0f,"attacked_p99_us":%.0f,)"
            R"("p99_ratio":%.2f,"mib_left":%.1f,"descriptors_left":%td})"
            "\n"
          : "%zu connections in %.2f s, all woken in %.1f ms, %.0f bytes each; %zu honest clients: "
            "%.0f requests/s, p99 %.0f us; beside %zu hostile ones (%zu misdeeds, %" PRIu64
            " lists of keys, %.1f MiB held back): %.0f requests/s, p99 %.0f us (x %.2f); left when "
            "all had gone: %.1f MiB, %td descriptors\n";
  std::printf(format, settings.connections, figures.connectSeconds, figures.wakeMs,
              figures.bytesPerConnection, kHonest, figures.honestRate, figures.honestP99Us,
              settings.hostile, figures.misdeeds, figures.keyLists, figures.heldBackMib,
              figures.attackedRate, figures.attackedP99Us,
              figures.attackedP99Us / figures.honestP99Us, figures.grownMib, figures.leftFds);
}

/// The first bound that was missed, or nothing. Tests allow ten times what a proof does, and do not
/// ask for what depends on everything else that the host does.
std::string missed(const Settings& settings, const Figures& figures) {
  const double allowed = settings.judge ? 1 : 10;
  const double crowds = std::max(1.0, static_cast<double>(settings.connections) / 10'000);
  if (figures.connectSeconds > 2 * crowds * allowed) {
    return "to connect took more than 2 s for 10,000";
  }
  if (figures.wakeMs > 500 * crowds * allowed) {
    return "to wake all took more than 500 ms for 10,000";
  }
  if (figures.leftFds != 0) {
    return "descriptors are left";
  }
  if (!settings.judge) {
    return "";
  }
  if (figures.bytesPerConnection > 4096) {
    return "an idle connection costs more than 4 KiB";
  }
  if (figures.attackedP99Us > 3 * figures.honestP99Us) {
    return "the p99 of honest clients rose more than threefold";
  }
  return figures.grownMib > 16 ? "memory was not given back" : "";
}

[[noreturn]] void usage() {
  static_cast<void>(
      std::fputs("usage: store_load [--connections N] [--hostile N] [--seconds S] [--judge] "
                 "[--json]\n",
                 stderr));
  std::exit(2);
}

Settings parseArguments(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--json" || name == "--judge") {
      (name == "--json" ? settings.json : settings.judge) = true;
      continue;
    }
    if (i + 1 == count) {
      usage();
    }
    const double value = std::strtod(arguments[++i], nullptr);
    if (name == "--connections") {
      settings.connections = static_cast<std::size_t>(value);
    } else if (name == "--hostile") {
      settings.hostile = static_cast<std::size_t>(value);
    } else if (name == "--seconds") {
      settings.seconds = value;
    } else {
      usage();
    }
  }
  return settings;
}

}  // namespace
}  // namespace unisono::stress

int main(int count, char** arguments) {
  using namespace unisono;
  ::setenv("UNISONO_LOG", "off", 0);
  const stress::Settings settings = stress::parseArguments(count, arguments);
  try {
    const stress::Figures figures = stress::measure(settings);
    stress::report(settings, figures);
    const std::string missed = stress::missed(settings, figures);
    if (!missed.empty()) {
      static_cast<void>(std::fprintf(stderr, "store_load: %s\n", missed.c_str()));
    }
    return missed.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "store_load: %s\n", error.what()));
    return 1;
  }
}
