// What `unisono doctor` finds out about other hosts: those that are named, and those of a job.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "unisono/unisono.hpp"

#include "base/fd.hpp"
#include "base/str.hpp"
#include "doctor_checks.hpp"
#include "net/connect.hpp"
#include "net/resolve.hpp"

namespace unisono::cli {
namespace {

using enum Finding::State;

constexpr Milliseconds kTimeForAHost(2000);
constexpr Milliseconds kTimeToMeet(20'000);
constexpr double kMuchSkew = 1;  // seconds
constexpr int kRounds = 5;

/// Where packets to `address` leave this host; empty when no way leads there. Nothing is sent.
std::string wayTo(const SocketAddress& address) {
  const UniqueFd probe(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid() || ::connect(probe.get(), address.raw(), address.size()) != 0) {
    return "";
  }
  return SocketAddress::localOf(probe.get()).hostText();
}

using HostName = std::array<std::uint8_t, 64>;

/// What the ranks of a job have said of themselves, by rank.
struct Answers {
  std::vector<std::string> hosts;
  std::vector<double> clocks;  // seconds of their wall clocks, when all had just met
  double barrier = 0;          // seconds of the fastest one
};

Answers askEverybody(Group& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  Answers answers{.hosts = {}, .clocks = std::vector<double>(ranks)};
  HostName mine{};
  static_cast<void>(::gethostname(reinterpret_cast<char*>(mine.data()), mine.size() - 1));
  std::vector<std::uint8_t> all(ranks * mine.size());
  world.allGather(mine, all);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    answers.hosts.emplace_back(reinterpret_cast<const char*>(&all[rank * mine.size()]));
  }
  std::array<double, 1> clock{};
  for (int round = 0; round < kRounds; ++round) {
    world.barrier();
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    const auto begin = std::chrono::steady_clock::now();
    world.barrier();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::array<double, 1> slowest{took.count()};
    world.allReduce(slowest, {.op = ReduceOp::MAX});
    if (round == 0 || slowest[0] < answers.barrier) {  // all ranks see the same
      answers.barrier = slowest[0];
      clock[0] = now.count();
    }
  }
  world.allGather(clock, answers.clocks);
  return answers;
}

/// What is found when all have answered.
Finding judge(const Answers& answers) {
  std::vector<std::string> hosts = answers.hosts;
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const std::string what =
      str(answers.hosts.size(), " ranks on ", join(hosts, ", "),
          " reach each other; a barrier takes ", std::lround(answers.barrier * 1e6), " us");
  const auto [least, most] = std::minmax_element(answers.clocks.begin(), answers.clocks.end());
  if (*most - *least > kMuchSkew) {
    const auto hostOf = [&](auto clock) {
      return answers.hosts[static_cast<std::size_t>(clock - answers.clocks.begin())];
    };
    return {WARN,
            str(what, "; the clock of ", hostOf(most), " is ", std::lround(*most - *least),
                " s ahead of that of ", hostOf(least)),
            "let NTP set the clocks: as they are, logs of the two cannot be compared"};
  }
  return {OK, str(what, ", and clocks differ by less than a second")};
}

}  // namespace

Finding lookAtHost(const std::string& host, std::uint16_t port) {
  const Deadline deadline = Deadline::after(kTimeForAHost);
  const auto addresses = resolve(host, port, deadline);
  if (!addresses.isOk()) {
    return {FAIL, str("its name means nothing here: ", addresses.failure().text()),
            "write it into /etc/hosts, or name its address"};
  }
  const SocketAddress& address = addresses.value().front();
  const std::string way = wayTo(address);
  if (way.empty()) {
    return {FAIL, str("no way leads to ", address.hostText()),
            "look at the routes of this host (ip route)"};
  }
  const std::string what = str(address.hostText(), ", from ", way, ", ");
  ConnectHistory history({host, port}, kTimeForAHost);
  const TimePoint begin = systemClock().now();
  const ConnectRound round = tryConnectOnce(history, deadline);
  if (round.socket.valid() || round.refused) {
    return {OK, str(what, round.socket.valid() ? "listens at port " : "answers at port ", port,
                    round.socket.valid() ? "" : ", where nobody listens", ", in ",
                    formatDuration(elapsedSince(begin)))};
  }
  return {FAIL, str(what, "does not let TCP through to port ", port, ": ", history.describe()),
          "start that host, and let its firewall pass TCP from here, at all ports"};
}

Finding lookAtJob(bool& tells) {
  try {
    Group world = init({.timeout = kTimeToMeet});
    tells = world.rank() == 0;
    if (world.size() == 1) {
      return {WARN, "this is a world of one, so nobody was asked",
              "start it on every host of a job: srun --ntasks-per-node=1 unisono doctor --net"};
    }
    const Finding finding = judge(askEverybody(world));
    world.barrier();
    return finding;
  } catch (const DistError& error) {
    return {FAIL, str("the ranks do not reach each other: ", error.facts().what),
            error.hint().empty() ? "ask for each host: unisono doctor --hosts NAME" : error.hint()};
  }
}

}  // namespace unisono::cli
