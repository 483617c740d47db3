// Ranks that die, in all ways in which processes do.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.hpp"
#include "base/process.hpp"
#include "base/wait.hpp"
#include "fault/chores.hpp"
#include "fault/judge.hpp"

namespace unisono::fault {
namespace {

constexpr std::size_t kMiB = 1U << 20U;

void pause(Milliseconds length) {
  pauseFor(length, {.deadline = Deadline::never(), .subject = {}});
}

/// Makes this process so large; the memory stays until it ends.
void grow(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no memory to be large");
  for (std::size_t at = 0; at < bytes; at += 4096) {
    static_cast<char*>(memory)[at] = 1;  // one byte makes a page ours
  }
}

Life worker(bool large) {
  return [large](Member& member) {
    Group group = member.join(kTimeToGrow);
    member.work(group, large);
  };
}

Verdict deathOf(std::vector<int> victims) {
  return {.reasons = {Reason::PEER_DEAD}, .culprits = std::move(victims)};
}

/// What survivors must have been told of `victims`, who died at `since`; and that they end well.
void judgeSurvivors(Round& round, Crew& crew, const std::vector<int>& victims, std::int64_t since,
                    const Verdict& verdict) {
  const std::vector<int> survivors = ranksBut(crew.size(), victims);
  for (const int rank : survivors) {
    judge(crew, rank, verdict);
  }
  round.took(lastTold(crew, survivors, since));
  for (const int rank : survivors) {
    crew.awaitEnd(rank);
  }
}

/// One rank is sent `signal` while all work; `before` prepares its process.
void dieBy(Round& round, int signal, const std::function<void()>& before) {
  Crew crew(2 + round.pick(4), round);
  const int victim = round.pick(crew.size());
  crew.start([&](Member& member) {
    if (member.rank() == victim) {
      before();
    }
    worker(round.isThorough())(member);
  });
  crew.awaitOperations(3);
  pause(Milliseconds(round.pick(20)));
  const std::int64_t killed = nowNs();
  ::kill(crew.process(victim).pid(), signal);
  judgeSurvivors(round, crew, {victim}, killed, deathOf({victim}));
  crew.process(victim).join();
}

void killed(Round& round) {
  dieBy(round, SIGKILL, [] {});
}

void killedPulling(Round& round) {
  const test::ScopedEnv pull("UNISONO_ALGO", "blocks=pull");
  dieBy(round, SIGKILL, [] {});
}

void killedLarge(Round& round) {
  const std::size_t wanted = (round.isThorough() ? 8192 : 256) * kMiB;
  dieBy(round, SIGKILL, [&] { grow(std::min<std::size_t>(wanted, memoryLeft() / 2)); });
}

void segfault(Round& round) {
  dieBy(round, SIGSEGV, [] {
    ::signal(SIGSEGV, SIG_DFL);  // that of a sanitizer would report it
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
  });
}

/// All others wait for a message that `sender` never sends.
void awaitMessageOf(int sender, Member& member) {
  Group group = member.join(kTimeToGrow);
  member.work(group, false, 3);
  if (member.rank() == sender) {
    member.awaitPhase(1);
  }
  std::vector<int> message(1);
  member.call(group, [&] { group.recv(message, sender); });
}

void dumpsCore(Round& round) {
#ifdef UNISONO_SANITIZED
  throw Skipped("a sanitizer's memory is too large for a core file");
#endif
  rlimit most{};
  ::getrlimit(RLIMIT_CORE, &most);
  if (most.rlim_max != RLIM_INFINITY) {
    throw Skipped("core files are limited here");
  }
  const test::TempDir folder;
  Crew crew(3, round);
  const int victim = round.pick(crew.size());
  const bool messages = round.number() % 2 == 1;
  crew.start([&](Member& member) {
    if (member.rank() == victim) {
      const rlimit all{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
      ::setrlimit(RLIMIT_CORE, &all);
      require(::chdir(folder.path().c_str()) == 0, "no folder for the core file");
      grow((round.isThorough() ? 2048 : 256) * kMiB);
    }
    messages ? awaitMessageOf(victim, member) : worker(false)(member);
  });
  crew.awaitOperations(3);
  const std::int64_t crashed = nowNs();
  ::kill(crew.process(victim).pid(), SIGSEGV);
  for (const int rank : ranksBut(crew.size(), {victim})) {
    crew.awaitError(rank);
  }
  // Told before the kernel had written its file: then they know what it is doing.
  Verdict verdict = deathOf({victim});
  if (isDumpingCore(crew.process(victim).pid())) {
    verdict.text = "dumping core";
  }
  judgeSurvivors(round, crew, {victim}, crashed, verdict);
  crew.process(victim).join();
}

/// Ends its process, in one of the ways in which a program may, with the group still there.
void leaveSuddenly(int way) {
  if (way == 0) {
    ::_exit(0);
  }
  if (way == 1) {
    std::exit(0);  // handlers and static destructors run
  }
  throw std::runtime_error("the program has had enough");  // and the group is let go of
}

void leaves(Round& round) {
  Crew crew(4, round);
  const int victim = round.pick(crew.size());
  const int way = round.number() % 3;
  crew.start([&](Member& member) {
    Group group = member.join();
    if (member.rank() != victim) {
      member.work(group, round.isThorough());
      return;
    }
    member.work(group, round.isThorough(), 5);
    member.report().calledNs.store(nowNs());
    leaveSuddenly(way);
  });
  Report& left = crew.report(victim);
  require(eventually([&] { return left.operations.load() >= 5 && crew.process(victim).ended(); }),
          "the rank that leaves does not end");
  const Verdict verdict{.reasons = {Reason::PEER_DEAD, Reason::PEER_LEFT}, .culprits = {victim}};
  judgeSurvivors(round, crew, {victim}, left.calledNs.load(), verdict);
}

/// Several at once. Who is told first may know of one death only; all know of all a moment later.
void severalDie(Round& round, int size, const std::vector<int>& victims) {
  Crew crew(size, round);
  crew.start([&](Member& member) {
    Group group = member.join();
    // By TCP a rank knows of those whom it is connected to.
    const std::vector<int> mine(static_cast<std::size_t>(size));
    std::vector<int> theirs(mine.size());
    group.allToAll(mine, theirs);
    member.work(group, round.isThorough());
    member.awaitPhase(1);
    member.callAgain(group);
    member.report().phase.store(2);
  });
  crew.awaitOperations(3);
  // Stopped first, so that none of them sees another one's death: who has told of a failure before
  // it ends is not blamed for that.
  for (const int victim : victims) {
    crew.process(victim).stop();
  }
  const std::int64_t when = nowNs();
  for (const int victim : victims) {
    ::kill(crew.process(victim).pid(), SIGKILL);
  }
  const std::vector<int> survivors = ranksBut(size, victims);
  round.took(lastTold(crew, survivors, when));
  for (const int victim : victims) {
    crew.process(victim).join();
  }
  crew.setPhase(1);
  for (const int rank : survivors) {
    Report& seen = crew.report(rank);
    require(eventually([&] { return seen.phase.load() == 2; }), "rank ", rank, " does not go on");
    const std::uint32_t named = seen.culprits.load();
    require(static_cast<Reason>(seen.reason.load()) == Reason::PEER_DEAD && named != 0 &&
                (named & ~bitsOf(victims)) == 0,
            "rank ", rank, " was not told of a death: ", seen.text);
    require(seen.nextCulprits.load() == bitsOf(victims), "rank ", rank,
            " does not know of all deaths: ", seen.text);
    crew.awaitEnd(rank);
  }
}

void twoDie(Round& round) {
  const int first = round.pick(5);
  severalDie(round, 5, {first, (first + 1 + round.pick(4)) % 5});
}

void allButOneDie(Round& round) {
  const int survivor = round.pick(4);
  severalDie(round, 4, ranksBut(4, {survivor}));
}

/// So many operations of a group, the same on all its ranks.
void doSome(Member& member, Group& group, int count) {
  SeededRng rng(static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    const bool right = carryOut(
        group, Chore::any(rng.next(), group.size(), false),
        [&] { member.report().calledNs.store(nowNs()); },
        [&] { member.report().wrong.store(true); });
    require(right, "a wrong result");
    member.report().operations.fetch_add(1);
  }
}

/// Ranks 0 and 1 have a group of their own, as 2 and 3 have, of which one is killed.
void othersGoOn(Round& round) {
  Crew crew(4, round);
  const int victim = 2 + round.pick(2);
  crew.start([](Member& member) {
    Group world = member.join();
    Group part = *world.split(member.rank() / 2);
    doSome(member, part, 3);
    Group& failing = member.rank() < 2 ? world : part;
    member.call(failing, [&] {
      for (;;) {
        doSome(member, failing, 1);
      }
    });
    if (member.rank() < 2) {
      doSome(member, part, 50);
      member.report().phase.store(2);
    }
  });
  crew.awaitOperations(3);
  const std::int64_t when = nowNs();
  ::kill(crew.process(victim).pid(), SIGKILL);
  for (const int rank : {0, 1}) {
    Report& seen = crew.report(rank);
    require(eventually([&] { return seen.phase.load() == 2 || crew.process(rank).ended(); }) &&
                seen.phase.load() == 2,
            "rank ", rank, " did not go on with the group that has lost nobody: ", seen.text);
  }
  judgeSurvivors(round, crew, {victim}, when, deathOf({victim}));
  crew.process(victim).join();
}

constexpr Milliseconds kNone{0};
constexpr Milliseconds kDeath{250};

constexpr Row kRows[] = {
    {"F1", "KilledInAnOperation", "a rank is killed (SIGKILL) amid operations",
     "PEER_DEAD, the victim", kNone, kDeath, killed, 6},
    {"F1b", "KilledWhileOthersReadIt",
     "the same, while blocks are read in the memory of who gives them", "PEER_DEAD, the victim",
     kNone, kDeath, killedPulling, 6, Row::Where::SHM_ONLY},
    {"F1c", "KilledInAnotherGroup",
     "the same, in one of two groups: the other one goes on, and only the world fails too",
     "PEER_DEAD, the victim; 50 operations of the other group", kNone, kDeath, othersGoOn, 3},
    {"F2", "KilledWithMuchMemory", "the same, and it has 8 GiB of memory (tests: 256 MiB)",
     "PEER_DEAD, the victim", kNone, kDeath, killedLarge},
    {"F3", "SegmentationFault", "a rank crashes (SIGSEGV) without a core file",
     "PEER_DEAD, the victim", kNone, kDeath, segfault},
    {"F4", "DumpsCore", "a rank crashes and dumps 2 GiB of core (tests: 256 MiB)",
     "PEER_DEAD, the victim, \"dumping core\"", kNone, Milliseconds(500), dumpsCore},
    {"F5", "LeavesSuddenly", "a rank ends by _exit(), by exit(), or by an exception",
     "PEER_DEAD or PEER_LEFT, the rank", kNone, kDeath, leaves, 3},
    {"F7", "TwoDieAtOnce", "two of five ranks are killed at once",
     "PEER_DEAD, one of them, then both", kNone, kDeath, twoDie},
    {"F8", "AllButOneDie", "all ranks but one are killed at once",
     "PEER_DEAD, one of them, then all", kNone, kDeath, allButOneDie},
};

}  // namespace

std::span<const Row> deathRows() {
  return kRows;
}

}  // namespace unisono::fault
