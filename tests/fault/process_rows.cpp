// Processes that fork, are interrupted, get little time, or end at any moment.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/process.hpp"
#include "base/wait.hpp"
#include "fault/judge.hpp"

namespace unisono::fault {
namespace {

constexpr Milliseconds kNone{0};

/// Whether `call` is refused because the group is the parent's.
bool isForked(const std::function<void()>& call) {
  try {
    call();
  } catch (const DistError& error) {
    return error.reason() == Reason::FORKED;
  }
  return false;
}

int useInChild(Group& group) {
  std::vector<int> data(10, 1);
  const bool refused =
      isForked([&] { group.barrier(); }) && isForked([&] { group.allReduce(data); }) &&
      isForked([&] { group.allReduce(data, {.async = true}); }) &&
      isForked([&] { group.send(data, 0); }) &&
      isForked([&] { group.processGroup().monitoredBarrier(); }) &&
      isForked([&] { group.newGroup({0}); }) && isForked([&] { destroyProcessGroup(group); });
  return refused && data == std::vector<int>(10, 1) ? 0 : 1;
}

void childUsesGroup(Round& round) {
#ifdef UNISONO_SANITIZED
  throw Skipped("sanitizers do not like forks of processes that have threads");
#endif
  Crew crew(3, round);
  crew.start([&](Member& member) {
    Group group = member.join();
    member.work(group, round.isThorough(), 10);
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(useInChild(group));
    }
    member.work(group, round.isThorough(), 20);  // beside it
    int status = -1;
    ::waitpid(child, &status, 0);
    require(status == 0, "a forked child was not refused; its status is ", status);
    member.work(group, round.isThorough(), 30);
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    require(crew.report(rank).operations.load() == 30, "rank ", rank,
            " did not get through: ", crew.report(rank).text);
  }
}

void parentOfChildDies(Round& round) {
#ifdef UNISONO_SANITIZED
  throw Skipped("sanitizers do not like forks of processes that have threads");
#endif
  Crew crew(3, round);
  const int victim = round.pick(crew.size());
  crew.start([&](Member& member) {
    Group group = member.join();
    if (member.rank() == victim) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::pause();  // until it is killed
        ::_exit(0);
      }
      member.report().pid.store(child);
    }
    member.work(group, round.isThorough());
  });
  crew.awaitOperations(5);
  const auto child = static_cast<pid_t>(crew.report(victim).pid.load());
  const std::int64_t killed = nowNs();
  ::kill(crew.process(victim).pid(), SIGKILL);
  const std::vector<int> survivors = ranksBut(crew.size(), {victim});
  for (const int rank : survivors) {
    judge(crew, rank, {.reasons = {Reason::PEER_DEAD}, .culprits = {victim}});
  }
  round.took(lastTold(crew, survivors, killed));
  require(lookAt(child).has_value(), "the child did not live");
  for (const int rank : survivors) {
    crew.awaitEnd(rank);
  }
  crew.process(victim).join();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);  // an orphan, which came to us
}

volatile std::sig_atomic_t interruptions = 0;

void interrupted(Round& round) {
  Crew crew(3, round);
  const std::int64_t enough = round.isThorough() ? 2000 : 300;
  crew.start([&](Member& member) {
    struct sigaction action {};
    action.sa_handler = [](int) { interruptions = interruptions + 1; };
    ::sigaction(SIGPROF, &action, nullptr);  // without SA_RESTART: calls end with EINTR
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval everyMs{.it_interval = {.tv_sec = 0, .tv_usec = 1000},
                            .it_value = {.tv_sec = 0, .tv_usec = 1000}};
    ::setitimer(ITIMER_PROF, &everyMs, nullptr);
    ::setitimer(ITIMER_REAL, &everyMs, nullptr);  // also while it sleeps
    {
      Group group = member.join();
      member.work(group, false, enough);
    }
    const itimerval off{};
    ::setitimer(ITIMER_PROF, &off, nullptr);
    ::setitimer(ITIMER_REAL, &off, nullptr);
    require(interruptions > 0, "nothing was interrupted");
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    require(crew.report(rank).operations.load() == enough && crew.report(rank).endedNs.load() == 0,
            "rank ", rank, " did not get through: ", crew.report(rank).text);
  }
}

void crowded(Round& round) {
  const int spinners = round.isThorough() ? 64 : 16;
  std::vector<std::unique_ptr<test::Process>> busy;
  for (int i = 0; i < spinners; ++i) {
    busy.push_back(std::make_unique<test::Process>([] {
      std::atomic<std::uint64_t> turns{0};
      while (turns.fetch_add(1) != UINT64_MAX) {}
      return 0;
    }));
  }
  Crew crew(round.isThorough() ? 16 : 6, round);
  const std::int64_t enough = round.isThorough() ? 50 : 10;
  crew.start([&](Member& member) {
    Group group = member.join(std::chrono::minutes(5));
    member.work(group, false, enough);
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    Report& seen = crew.report(rank);
    for (int patience = 0; patience < 20 && seen.operations.load() < enough; ++patience) {
      eventually([&] { return seen.operations.load() >= enough || seen.endedNs.load() != 0; });
      require(seen.endedNs.load() == 0, "rank ", rank, " found somebody dead: ", seen.text);
    }
  }
  busy.clear();
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    require(crew.report(rank).operations.load() == enough, "rank ", rank,
            " did not get through: ", crew.report(rank).text);
  }
}

/// exit() by another thread than the one that is busy with the group, a moment later.
void exitSoon(Report& report) {
  std::thread([&report] {
    pauseFor(Milliseconds(30), {.deadline = Deadline::never(), .subject = {}});
    report.calledNs.store(nowNs());
    std::exit(0);
  }).detach();
}

/// Ends its process in the middle of something; does not return.
void exitIn(int phase, Member& member) {
  if (phase == 0) {  // while the group is formed: nobody else comes
    exitSoon(member.report());
    member.join();
  }
  static Group* group = nullptr;
  group = new Group(member.join());
  if (phase == 1) {  // in an operation
    exitSoon(member.report());
    member.work(*group, false);
  } else if (phase == 2) {  // with operations that nobody waits for, and while it is destroyed
    static std::vector<int> data(10, 1);
    const WorkPtr open = group->recv(data, 0, {.async = true});
    exitSoon(member.report());
    destroyProcessGroup(*group);
  } else if (phase == 3) {  // without destroying it
    member.work(*group, false, 3);
  } else {  // it is let go of by a handler of exit(); then with an operation that nobody joins
    static const WorkPtr open = phase == 5 ? group->barrier({.async = true}) : nullptr;
    std::atexit([] { delete group; });
  }
  member.report().calledNs.store(nowNs());
  std::exit(0);
}

void exits(Round& round) {
#ifdef UNISONO_SANITIZED
  throw Skipped("what is left at an exit in the middle of things is reported as leaks");
#endif
  const int phase = round.number() % 6;
  Crew crew(phase == 0 || phase == 5 ? 2 : 1, round);
  crew.startOne(0, 0, [&](Member& member) { exitIn(phase, member); });
  if (phase == 5) {
    crew.startOne(1, 1, [](Member& member) {
      const Group group = member.join();
      member.awaitPhase(1);
    });
  }
  require(eventually([&] { return crew.process(0).ended(); }), "exit() in phase ", phase, " hangs");
  const std::int64_t ended = nowNs();
  const int status = crew.process(0).join();
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "exit() in phase ", phase,
          " ended with status ", status);
  round.took(ended - crew.report(0).calledNs.load());
}

constexpr Row kRows[] = {
    {"F34", "ForkedChildUsesTheGroup", "a rank forks, and the child uses the group",
     "FORKED in the child; the parent goes on", kNone, kNone, childUsesGroup, 1},
    {"F35", "ParentOfAForkedChildDies", "a rank forks and is killed; the child lives",
     "PEER_DEAD, the victim", kNone, Milliseconds(250), parentOfChildDies},
    {"F36", "Interrupted", "SIGPROF and SIGALRM a thousand times a second in all ranks", "success",
     kNone, kNone, interrupted, 1},
    {"F38", "Crowded", "16 ranks beside 64 processes that spin (tests: 6, 16)",
     "success, nobody is taken for dead", kNone, kNone, crowded, 1},
    {"F39", "ExitsAnywhere", "exit() while a group is formed, used, destroyed, left or let go of",
     "the process ends well", kNone, Milliseconds(2000), exits, 6},
};

}  // namespace

std::span<const Row> processRows() {
  return kRows;
}

}  // namespace unisono::fault
