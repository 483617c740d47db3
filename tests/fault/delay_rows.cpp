// Ranks that do not die, but do not come either, or late.
#include <csignal>
#include <filesystem>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/wait.hpp"
#include "fault/chores.hpp"
#include "fault/judge.hpp"

namespace unisono::fault {
namespace {

// T of the rows in which a rank does not come: all others must have come within it.
constexpr Milliseconds kAbsence{2000};
constexpr Milliseconds kStop{2000};
constexpr Milliseconds kSlow{8000};

void pause(Milliseconds length) {
  pauseFor(length, {.deadline = Deadline::never(), .subject = {}});
}

/// An operation in which everybody waits for everybody.
Chore anyForAll(std::uint64_t choice, bool large) {
  static constexpr Chore::Kind kKinds[] = {Chore::Kind::ALL_REDUCE, Chore::Kind::BARRIER,
                                           Chore::Kind::ALL_GATHER, Chore::Kind::ALL_TO_ALL,
                                           Chore::Kind::REDUCE_SCATTER};
  Chore chore = Chore::any(choice, 1, large);
  chore.kind = kKinds[choice / 1024 % 5];
  return chore;
}

/// Nanoseconds from the first call of one of `ranks` to the last error.
std::int64_t waited(Crew& crew, const std::vector<int>& ranks) {
  std::int64_t first = INT64_MAX;
  std::int64_t last = 0;
  for (const int rank : ranks) {
    crew.awaitError(rank);
    first = std::min(first, crew.report(rank).calledNs.load());
    last = std::max(last, crew.report(rank).endedNs.load());
  }
  return last - first;
}

/// `absent` ranks do not make a call that all others make. When these have given up, they do.
void staysAway(Round& round, int size, const std::vector<int>& absent) {
  Crew crew(size, round);
  const Chore chore = anyForAll(round.rng().next(), round.isThorough());
  crew.start([&](Member& member) {
    Group group = member.join();
    member.work(group, false, 5);  // all are there, and the same
    group.processGroup().setTimeout(kAbsence);
    if ((bitsOf(absent) >> static_cast<unsigned>(member.rank()) & 1U) != 0) {
      member.awaitPhase(1);
    }
    Report& report = member.report();
    member.call(group, [&] {
      carryOut(
          group, chore, [&] { report.calledNs = nowNs(); }, [&] { report.wrong = true; });
      group.barrier();  // by TCP what the others had sent may be all that was needed
    });
  });
  const std::vector<int> present = ranksBut(size, absent);
  const Verdict verdict{
      .reasons = {Reason::TIMEOUT},
      .kind = ErrorKind::TIMEOUT,
      .culprits = absent,
      .text = str("Waiting for rank ", absent.front(), " (process ",
                  crew.process(absent.front()).pid(), round.way() == Way::HOSTS ? "" : ", state ")};
  for (const int rank : present) {
    judge(crew, rank, verdict);
    require(std::string(crew.report(rank).text).find(", state ") != std::string::npos, "rank ",
            rank, " does not say how the others are: ", crew.report(rank).text);
  }
  round.took(waited(crew, present));
  crew.setPhase(1);
  for (int rank = 0; rank < size; ++rank) {
    judge(crew, rank, verdict);
    crew.awaitEnd(rank);
  }
}

void oneStaysAway(Round& round) {
  staysAway(round, 4, {round.pick(4)});
}

void someStayAway(Round& round) {
  const int first = round.pick(3);
  staysAway(round, 5, {first, first + 1 + round.pick(2)});
}

void stopped(Round& round) {
  Crew crew(3, round);
  const int victim = round.pick(crew.size());
  crew.start([&](Member& member) {
    Group group = member.join();
    group.processGroup().setTimeout(kStop);
    member.work(group, round.isThorough());
  });
  crew.awaitOperations(3);
  crew.process(victim).stop();
  const std::vector<int> others = ranksBut(crew.size(), {victim});
  Verdict verdict{.reasons = {Reason::TIMEOUT},
                  .kind = ErrorKind::TIMEOUT,
                  .culprits = {victim},
                  .text = "state T stopped"};
  for (const int rank : others) {
    judge(crew, rank, verdict);
  }
  round.took(waited(crew, others));
  crew.process(victim).resume();
  judge(crew, victim, verdict);
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
  }
}

void slow(Round& round) {
  Crew crew(3, round);
  const int late = round.pick(crew.size());
  crew.start([&](Member& member) {
    Group group = member.join();
    group.processGroup().setTimeout(kSlow);
    member.work(group, round.isThorough(), 10);
    if (member.rank() == late) {
      pause(kSlow / 2);
    }
    member.work(group, round.isThorough(), 20);
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    const Report& seen = crew.report(rank);
    require(seen.operations.load() == 20, "rank ", rank, " did not get through: ", seen.text);
    require(seen.warnings.load() == 0, "rank ", rank, " warned of a rank that was a little late");
  }
}

/// Every thread of a process, held as by a debugger.
class Debugged {
 public:
  explicit Debugged(pid_t pid) {
    for (const auto& thread : std::filesystem::directory_iterator(str("/proc/", pid, "/task"))) {
      const pid_t tid = std::stoi(thread.path().filename());
      if (::ptrace(PTRACE_ATTACH, tid, nullptr, nullptr) != 0) {
        throw Skipped("processes cannot be debugged here");
      }
      ::waitpid(tid, nullptr, __WALL);
      threads_.push_back(tid);
    }
  }
  ~Debugged() {
    for (const pid_t tid : threads_) {
      ::ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
    }
  }
  Debugged(const Debugged&) = delete;
  Debugged& operator=(const Debugged&) = delete;

 private:
  std::vector<pid_t> threads_;
};

void debugged(Round& round) {
  Crew crew(3, round);
  const int victim = round.pick(crew.size());
  crew.start([&](Member& member) {
    Group group = member.join(std::chrono::minutes(30));
    member.work(group, false, 10);
    member.awaitPhase(1);
    member.work(group, false, 20);
  });
  crew.awaitOperations(10);
  {
    const Debugged held(crew.process(victim).pid());
    crew.setPhase(1);
    pause(round.isThorough() ? std::chrono::seconds(60) : std::chrono::seconds(2));
    for (int rank = 0; rank < crew.size(); ++rank) {
      require(crew.report(rank).endedNs.load() == 0, "rank ", rank,
              " did not wait for a rank that is debugged: ", crew.report(rank).text);
    }
  }
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    require(crew.report(rank).operations.load() == 20, "rank ", rank,
            " did not get through: ", crew.report(rank).text);
  }
}

constexpr Milliseconds kLate{50};
constexpr Milliseconds kNone{0};

constexpr Row kRows[] = {
    {"F6", "StaysAwayAndLives", "a rank does not make the call that all others make; T = 2 s",
     "TIMEOUT, the rank and its state", kAbsence, kLate, oneStaysAway, 3},
    {"F9", "Stopped", "a rank is stopped (SIGSTOP) amid operations; T = 2 s",
     "TIMEOUT, the rank, \"state T\"; it is told when it goes on", kStop, kLate, stopped, 1},
    {"F10", "Slow", "a rank comes half of T late; T = 8 s", "success, no warning", kNone, kNone,
     slow, 1},
    {"F11", "UnderADebugger", "a rank is held by a debugger for 60 s (tests: 2 s); T = 30 min",
     "success after it goes on", kNone, kNone, debugged, 1},
    {"F14", "SomeStayAway", "two of five ranks do not make a call; T = 2 s", "TIMEOUT, both",
     kAbsence, kLate, someStayAway},
};

}  // namespace

std::span<const Row> delayRows() {
  return kRows;
}

}  // namespace unisono::fault
