#include "fault/crew.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/store/file_store.hpp"

#include "base/process.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "fault/chores.hpp"
#include "fault/row.hpp"
#include "life/monitor.hpp"
#include "net/address.hpp"
#include "transport/mesh/harbour.hpp"

namespace unisono::fault {
namespace {

// Longer than a port for ranks waits for one that has connected, and is stopped before it says why.
constexpr Milliseconds kTimeToLetGo(8000);

/// Whether a local socket of that name exists: none may outlive its process.
bool isSocket(const std::string& name) {
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with("@" + name)) {
      return true;
    }
  }
  return false;
}

/// Has this process, of rank `rank`, reach the others so.
void takeWay(Way way, int rank) {
  if (way == Way::TCP) {
    ::setenv("UNISONO_TRANSPORT", "tcp", 1);
  } else if (way == Way::HOSTS) {
    ::setenv("UNISONO_HOST_ID", rank % 2 == 0 ? "here" : "there", 1);
  }
}

int live(Member& member, const Life& life, Way way) {
  Report& report = member.report();
  test::LogCapture log;
  // Made before anything is counted: it stays as long as the process does.
  const std::string& socket = Monitor::instance().socketName();
  std::memcpy(report.socket, socket.data(), std::min(socket.size(), sizeof report.socket - 1));
  if (way != Way::SHM) {
    mesh::Harbour::instance().listenAt(*SocketAddress::parse("127.0.0.1", 0));
  }
  const std::int64_t before = holdings();
  try {
    life(member);
  } catch (const std::exception& error) {
    note(report, error, nowNs());
  }
  // The monitor closes connections of other processes in its own time. One look decides: at the
  // next one somebody may have come to ask.
  std::int64_t left = 0;
  static_cast<void>(eventually(
      [&] {
        left = holdings() - before;
        return left <= 0;
      },
      kTimeToLetGo));
  report.leftBehind.store(left);
  report.warnings.store(static_cast<std::int64_t>(log.lines().size()));
  return 0;
}

}  // namespace

bool eventually(const std::function<bool()>& ready, Milliseconds patience) {
  TimerWaitable timer{Milliseconds(1)};
  return waitUntil(ready, {.deadline = Deadline::after(patience), .subject = {}}, timer);
}

std::int64_t holdings() {
  std::int64_t count = std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                     std::filesystem::directory_iterator());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:unisono") != std::string::npos ? 1 : 0;
  }
  return count;
}

Group Member::join(Milliseconds timeout, StorePtr store) {
  report_.calledNs.store(nowNs());
  return init({.store = store ? std::move(store) : std::make_shared<FileStore>(storePath_, size_),
               .rank = rank_,
               .size = size_,
               .timeout = timeout});
}

void Member::work(Group& group, bool large, std::int64_t enough) {
  SeededRng rng(seed_);  // the same on all ranks
  const auto calling = [this] { report_.calledNs.store(nowNs()); };
  const auto wrong = [this] { report_.wrong.store(true); };
  call(group, [&] {
    while (report_.operations.load() < enough) {
      if (!carryOut(group, Chore::any(rng.next(), size_, large), calling, wrong)) {
        wrong();
        return;
      }
      report_.operations.fetch_add(1);
    }
  });
}

void Member::call(Group& group, const std::function<void()>& operation) {
  report_.calledNs.store(nowNs());
  try {
    operation();
  } catch (const std::exception& error) {
    const std::int64_t when = nowNs();
    callAgain(group);
    note(report_, error, when);
  }
}

/// A group that has failed once fails always, at once, and for the same reason. Of the times the
/// best counts: in the others this process may have had to wait for a core.
void Member::callAgain(Group& group) {
  constexpr int kCalls = 5;
  std::int64_t best = INT64_MAX;
  for (int i = 0; i < kCalls; ++i) {
    const std::int64_t start = nowNs();
    std::int32_t reason = -1;
    try {
      group.barrier();
    } catch (const DistError& error) {
      reason = static_cast<std::int32_t>(error.reason());
      report_.nextCulprits.store(bitsOf(error.culprits()));
    }
    best = std::min(best, nowNs() - start);
    const bool asBefore = i == 0 || report_.nextReason.load() == reason;
    report_.nextReason.store(asBefore ? reason : -1);
  }
  report_.nextNs.store(best);
}

void Member::awaitPhase(std::int64_t phase) {
  require(eventually([&] { return report_.phase.load() >= phase; }), "nobody goes on");
}

Crew::Crew(int size, Round& round)
    : size_(size),
      seed_(round.rng().next()),
      way_(round.way()),
      thorough_(round.isThorough()),
      storePath_(folder_.file("store")) {}

Crew::~Crew() {
  for (const auto& process : processes_) {
    if (process) {
      process->resume();  // a stopped process dies late
    }
  }
}

void Crew::start(const Life& life) {
  for (int rank = 0; rank < size_; ++rank) {
    startOne(rank, rank, life);
  }
}

void Crew::startOne(int slot, int rank, const Life& life) {
  const auto place = static_cast<std::size_t>(slot);
  processes_.resize(std::max(processes_.size(), place + 1));
  processes_[place] = std::make_unique<test::Process>([&, slot, rank] {
    takeWay(way_, rank);
    prepare_(rank);
    Member member(rank, size_, storePath_, seed_, board_[slot]);
    return live(member, life, way_);
  });
}

void Crew::setPhase(std::int64_t phase) {
  for (int rank = 0; rank < size_; ++rank) {
    report(rank).phase.store(phase);
  }
}

void Crew::awaitAsleep(int rank) {
  const std::int64_t since = nowNs();
  const bool asleep = eventually([&] {
    const auto state = lookAt(process(rank).pid());
    return report(rank).calledNs.load() != 0 && state && state->state == 'S' &&
           nowNs() - since > 20'000'000;  // not in a short sleep on its way there
  });
  require(asleep, "rank ", rank, " does not come to wait");
}

void Crew::awaitOperations(std::int64_t count) {
  for (int rank = 0; rank < size_; ++rank) {
    Report& seen = report(rank);
    const bool done = eventually(
        [&] { return seen.operations.load() >= count || seen.endedNs.load() != 0; }, kTimeToGrow);
    require(done && seen.operations.load() >= count, "rank ", rank,
            " did not get to work: ", seen.text);
  }
}

void Crew::awaitError(int rank) {
  Report& seen = report(rank);
  const bool ended = eventually([&] { return seen.endedNs.load() != 0 || seen.wrong.load(); });
  require(!seen.wrong.load(), "rank ", rank, " got a wrong result, or wrote beside its outputs");
  require(ended, "rank ", rank, " did not end");
}

void Crew::awaitEnd(int slot) {
  test::Process& one = process(slot);
  require(eventually([&] { return one.ended(); }), "the process of rank ", slot, " does not end");
  const int status = one.join();
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the process of rank ", slot,
          " ended with status ", status, ": ", report(slot).text);
  require(!report(slot).wrong.load(), "rank ", slot, " got a wrong result");
  // Fewer is no harm: the spare descriptor of the monitor, when there was none left to replace it.
  require(report(slot).leftBehind.load() <= 0, "the group of rank ", slot, " left ",
          report(slot).leftBehind.load(), " descriptors and mappings in its process");
  require(!isSocket(report(slot).socket), "the local socket of rank ", slot, " was left behind");
}

}  // namespace unisono::fault
