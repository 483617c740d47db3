// store_stress: stores under fire.
//
// In every round a server process and several client processes work while, at random moments, the
// server or clients are stopped, continued or killed. Each client checks that its calls are
// answered, or fail with the right error in time, and that no answer is wrong; afterwards nothing
// may be left behind.
//
//   store_stress [--rounds N] [--seconds S] [--seed S] [--slack-ms MS] [--judge] [--json]
//
// With --judge no call may end later than is promised, which needs a machine that does nothing
// else; without, it may take what tests allow, and --slack-ms more.
//
// Ends with 1, and a line that names the seed and the round, when a promise was broken.
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "stress/client.hpp"
#include "support/server_process.hpp"

namespace unisono::stress {
namespace {

using test::Process;
using test::ServerProcess;

struct Settings {
  int rounds = 10;
  Milliseconds duration{};  // 0 = as many rounds as asked for
  std::uint64_t seed = randomSeed();
  Milliseconds slack{500};
  bool judge = false;
  bool json = false;
};

struct Totals {
  int rounds = 0;
  std::int64_t calls = 0;
  std::int64_t answers = 0;
  std::int64_t timeouts = 0;
  std::int64_t losses = 0;
  std::int64_t worstLateUs = 0;
  std::vector<std::int64_t> detectUs;
  std::string violation;  // of the first round that had one
};

void pause(Milliseconds length) {
  pauseFor(length, {.deadline = Deadline::after(std::chrono::hours(1)), .subject = {}});
}

bool soon(const std::function<bool()>& condition) {
  TimerWaitable timer(Milliseconds(2));
  const WaitContext limit{.deadline = Deadline::after(std::chrono::seconds(10)), .subject = {}};
  return waitUntil(condition, limit, timer);
}

std::ptrdiff_t openFiles(const std::string& process) {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/" + process + "/fd", error);
  return error ? -1 : std::distance(begin(files), end(files));
}

class Round {
 public:
  Round(std::uint64_t seed, bool useLibUv, const Settings& how)
      : random_(seed), server_(useLibUv), filesOfServer_(openFiles(str(server_.pid()))) {
    const int count = 3 + static_cast<int>(below(kMostClients - 2));
    for (int i = 0; i < count; ++i) {
      const ClientSettings settings{.number = i,
                                    .clients = count,
                                    .port = server_.port(),
                                    .seed = random_.next(),
                                    .judge = how.judge,
                                    .slack = how.slack};
      clients_.push_back({std::make_unique<Process>([&] { return runClient(*board_, settings); })});
    }
  }

  std::uint16_t port() const { return server_.port(); }

  /// Plays the round; returns what was wrong, or nothing.
  std::string play() {
    const std::uint64_t events = 2 + below(5);
    for (std::uint64_t i = 0; i < events; ++i) {
      pause(Milliseconds(below(120)));
      disturb();
    }
    pause(Milliseconds(below(100)));
    for (Member& client : clients_) {
      resume(client);
    }
    board_->end.store(true);
    std::string wrong = joinClients();
    wrong = wrong.empty() && !serverKilled() ? checkServer() : wrong;
    server_.kill();
    return wrong;
  }

  void addTo(Totals& totals) const {
    for (const ClientNotes& notes : board_->clients) {
      totals.calls += notes.calls.load();
      totals.answers += notes.answers.load();
      totals.timeouts += notes.timeouts.load();
      totals.losses += notes.losses.load();
      totals.worstLateUs = std::max(totals.worstLateUs, notes.worstLateUs.load());
      if (notes.detectUs.load() >= 0) {
        totals.detectUs.push_back(notes.detectUs.load());
      }
    }
  }

 private:
  struct Member {
    std::unique_ptr<Process> process;
    bool stopped = false;
    bool killed = false;
  };

  std::uint64_t below(std::uint64_t limit) { return random_.next() % limit; }
  bool serverKilled() const { return board_->serverKilledAtUs.load() != 0; }
  ClientNotes& notesOf(const Member& member) {
    return board_->clients[static_cast<std::size_t>(&member - clients_.data())];
  }

  void disturb() {
    Member& client = clients_[below(clients_.size())];
    switch (below(8)) {
      case 0:
        killServer();
        break;
      case 1:
      case 2:
        pauseServer();
        break;
      case 3:
        kill(client);
        break;
      case 4:
      case 5:
        stop(client);
        break;
      default:
        resume(client);
        break;
    }
  }

  void killServer() {
    if (!serverKilled() && below(3) == 0) {
      board_->serverKilledAtUs.store(nowUs());
      server_.kill();
    }
  }

  void pauseServer() {
    if (!serverKilled()) {
      server_.stop();
      pause(Milliseconds(below(250)));
      server_.resume();
    }
  }

  void stop(Member& client) {
    if (!client.killed && !client.stopped && !client.process->ended()) {
      ++notesOf(client).stops;
      client.process->stop();
      client.stopped = true;
    }
  }

  void resume(Member& client) {
    if (client.stopped && !client.killed) {
      client.process->resume();
      ++notesOf(client).stops;
      client.stopped = false;
    }
  }

  void kill(Member& client) {
    if (!client.killed) {
      client.process->kill();
      client.killed = true;
    }
  }

  /// Waits for the clients to end; returns what one of them found wrong.
  std::string joinClients() {
    std::string wrong;
    for (Member& client : clients_) {
      const ClientNotes& notes = notesOf(client);
      const std::string who = str("client ", &client - clients_.data(), ": ");
      if (!client.killed && !soon([&] { return client.process->ended(); })) {
        wrong = str(who, "still in ", notes.call.data(), " 10 s after the round's end");
      } else if (!client.killed && client.process->join() != 0) {
        wrong = str(who, "ended with status ", client.process->join(), " in ", notes.call.data());
      } else if (notes.violation[0] != '\0') {
        wrong = str(who, notes.violation.data());
      }
    }
    return wrong;
  }

  /// A server that lived through the round has the right sums and has forgotten its clients.
  std::string checkServer() {
    std::int64_t tried = 0;
    std::int64_t done = 0;
    for (const ClientNotes& notes : board_->clients) {
      tried += notes.addsTried.load();
      done += notes.addsDone.load();
    }
    {
      TCPStore store("127.0.0.1", {.port = server_.port(), .timeout = std::chrono::seconds(10)});
      const std::int64_t sum = store.add("shared", 0);
      if (sum < done || sum > tried) {
        return str("the shared counter is ", sum, " after ", done, " to ", tried, " additions");
      }
    }
    if (!soon([&] { return openFiles(str(server_.pid())) == filesOfServer_; })) {
      return str("the server holds ", openFiles(str(server_.pid())),
                 " descriptors without clients, ", "but began with ", filesOfServer_);
    }
    return "";
  }

  SeededRng random_;
  SharedBoard board_;
  ServerProcess server_;
  const std::ptrdiff_t filesOfServer_;
  std::vector<Member> clients_;
};

/// What a round has left behind, or nothing.
std::string leftovers(std::ptrdiff_t filesBefore, std::uint16_t port) {
  if (::waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) {
    return "a child process is left";
  }
  if (openFiles("self") != filesBefore) {
    return str(openFiles("self") - filesBefore, " descriptors are left");
  }
  try {
    const TCPStore store("127.0.0.1", {.port = port, .timeout = Milliseconds(0)});
    return str("somebody still listens on port ", port);
  } catch (const DistNetworkError&) {
    return "";
  }
}

Totals playRounds(const Settings& settings) {
  Totals totals;
  const Deadline end = Deadline::after(settings.duration);
  const bool timed = settings.duration.count() > 0;
  for (int i = 0; timed ? !end.expired() : i < settings.rounds; ++i) {
    const std::ptrdiff_t files = openFiles("self");
    std::uint16_t port = 0;
    std::string wrong;
    {
      Round round(settings.seed + static_cast<std::uint64_t>(i), i % 2 == 0, settings);
      port = round.port();
      wrong = round.play();
      round.addTo(totals);
    }
    ++totals.rounds;
    wrong = wrong.empty() ? leftovers(files, port) : wrong;
    if (!wrong.empty()) {
      totals.violation = str("seed ", settings.seed, " round ", i, ": ", wrong);
      break;
    }
  }
  return totals;
}

double median(std::vector<std::int64_t> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return static_cast<double>(values[values.size() / 2]);
}

void report(const Settings& settings, const Totals& totals, double seconds) {
  const int violations = totals.violation.empty() ? 0 : 1;
  const double late = static_cast<double>(totals.worstLateUs) / 1000;
  const double detect = median(totals.detectUs) / 1000;
  if (settings.json) {
    std::printf(
        R"({"schema":"unisono-store-stress/1","rounds":%d,"seed":%ju,"calls":%jd,"answers":%jd,)"
        R"("errors":{"TIMEOUT":%jd,"STORE_LOST":%jd},"violations":%d,"worst_late_ms":%.1f,)"
        R"("median_detect_ms":%.1f,"seconds":%.1f})"
        "\n",
        totals.rounds, std::uintmax_t{settings.seed}, std::intmax_t{totals.calls},
        std::intmax_t{totals.answers}, std::intmax_t{totals.timeouts}, std::intmax_t{totals.losses},
        violations, late, detect, seconds);
  } else {
    std::printf(
        "%d rounds (seed %ju): %jd calls, %jd answers, %jd timeouts, %jd lost, %d violations; "
        "latest answer %.1f ms after its timeout, death of the server seen after %.1f ms; %.1f s\n",
        totals.rounds, std::uintmax_t{settings.seed}, std::intmax_t{totals.calls},
        std::intmax_t{totals.answers}, std::intmax_t{totals.timeouts}, std::intmax_t{totals.losses},
        violations, late, detect, seconds);
  }
}

[[noreturn]] void usage() {
  static_cast<void>(
      std::fputs("usage: store_stress [--rounds N] [--seconds S] [--seed S] "
                 "[--slack-ms MS] [--judge] [--json]\n",
                 stderr));
  std::exit(2);
}

Settings parseArguments(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--json") {
      settings.json = true;
      continue;
    }
    if (name == "--judge") {
      settings.judge = true;
      continue;
    }
    if (i + 1 == count) {
      usage();
    }
    const std::uint64_t value = std::strtoull(arguments[++i], nullptr, 10);
    if (name == "--rounds") {
      settings.rounds = static_cast<int>(value);
    } else if (name == "--seconds") {
      settings.duration = std::chrono::seconds(value);
    } else if (name == "--seed") {
      settings.seed = value;
    } else if (name == "--slack-ms") {
      settings.slack = Milliseconds(value);
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
  const TimePoint start = systemClock().now();
  const stress::Totals totals = stress::playRounds(settings);
  const double seconds = std::chrono::duration<double>(systemClock().now() - start).count();
  stress::report(settings, totals, seconds);
  if (!totals.violation.empty()) {
    static_cast<void>(std::fprintf(stderr, "store_stress: %s\n", totals.violation.c_str()));
    return 1;
  }
  return 0;
}
