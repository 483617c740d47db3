// store_load: a store server with very many clients, and with very bad ones.
//
//   store_load [--connections N] [--hostile N] [--seconds S] [--judge] [--json]
//
// With --judge it ends with 1 when a bound is missed; without, only when something does not work.
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
  double grownMib = 0;  // of the server's memory, when all have gone
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
    const Mob mob(server.port(), settings.hostile, 20261116);
    const bench::LoadFigures attacked = honestWork(server, settings.seconds);
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
            R"("misdeeds":%zu,"attacked_requests_per_s":%.0f,"attacked_p99_us":%.0f,)"
            R"("p99_ratio":%.2f,"mib_left":%.1f,"descriptors_left":%td})"
            "\n"
          : "%zu connections in %.2f s, all woken in %.1f ms, %.0f bytes each; %zu honest clients: "
            "%.0f requests/s, p99 %.0f us; beside %zu hostile ones (%zu misdeeds): %.0f "
            "requests/s, "
            "p99 %.0f us (x %.2f); left when all had gone: %.1f MiB, %td descriptors\n";
  std::printf(format, settings.connections, figures.connectSeconds, figures.wakeMs,
              figures.bytesPerConnection, kHonest, figures.honestRate, figures.honestP99Us,
              settings.hostile, figures.misdeeds, figures.attackedRate, figures.attackedP99Us,
              figures.attackedP99Us / figures.honestP99Us, figures.grownMib, figures.leftFds);
}

/// The first bound that was missed, or nothing.
std::string missed(const Figures& figures) {
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
    const std::string missed = stress::missed(figures);
    const bool bad = figures.leftFds != 0 || (settings.judge && !missed.empty());
    if (bad) {
      static_cast<void>(std::fprintf(stderr, "store_load: %s\n",
                                     missed.empty() ? "descriptors are left" : missed.c_str()));
    }
    return bad ? 1 : 0;
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "store_load: %s\n", error.what()));
    return 1;
  }
}
