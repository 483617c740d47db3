// Hosts that have less to give than usual.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/syscall.h>

#include "unisono/store/file_store.hpp"

#include "fault/judge.hpp"
#include "fault/sandbox.hpp"
#include "net/address.hpp"
#include "support/memory.hpp"
#include "transport/mesh/harbour.hpp"

namespace unisono::fault {
namespace {

constexpr Milliseconds kNone{0};
// T of the rows in which a rank may not come: all others must have come within it.
constexpr Milliseconds kPatience{3000};
constexpr Milliseconds kRefused{1050};          // for a refusal that may be one of an earlier group
constexpr std::uint64_t kReserve = 64U << 20U;  // which is not shared

/// Everything works, as often as it is tried.
void workAll(Member& member, bool large) {
  Group group = member.join();
  member.work(group, large, 40);
}

/// All have got through, with `warnings` by rank 0 and none by others.
void awaitSuccess(Crew& crew, std::int64_t warnings = 0) {
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    const Report& seen = crew.report(rank);
    require(seen.operations.load() == 40, "rank ", rank, " did not get through: ", seen.text);
    require(seen.warnings.load() == (rank == 0 ? warnings : 0), "rank ", rank, " warned ",
            seen.warnings.load(), " times");
  }
}

void littleShm(Round& round) {
  if (!mayMount()) {
    throw Skipped("needs the right to mount");
  }
  Crew crew(4, round);
  const int kind = round.number() % 4;
  crew.setPreparation([&](int) {
    if (kind == 3) {
      coverWithTmpfs("/dev", "size=64k");  // in which there is no shm
    } else {
      coverWithTmpfs("/dev/shm", kind == 0 ? "size=64m" : "size=1m", kind == 2);
    }
  });
  crew.start([&](Member& member) { workAll(member, round.isThorough()); });
  awaitSuccess(crew);
}

/// Where this process believes its cgroup to be, with so much memory.
void pretendCgroup(std::uint64_t bytes) {
  coverWithTmpfs("/sys/fs/cgroup", "size=1m");
  std::filesystem::create_directories("/sys/fs/cgroup/memory");
  std::ofstream("/sys/fs/cgroup/memory.max") << bytes << "\n";
  std::ofstream("/sys/fs/cgroup/memory.current") << "0\n";
  std::ofstream("/sys/fs/cgroup/memory/memory.limit_in_bytes") << bytes << "\n";
  std::ofstream("/sys/fs/cgroup/memory/memory.usage_in_bytes") << "0\n";
}

void littleMemory(Round& round) {
  if (!mayMount()) {
    throw Skipped("needs the right to mount");
  }
  Crew crew(4, round);  // whose ring would be 2 MiB
  const std::uint64_t room = round.number() % 2 == 0 ? 1U << 20U : 600U << 10U;
  crew.setPreparation([&](int) { pretendCgroup(kReserve + room); });
  crew.start([&](Member& member) { workAll(member, round.isThorough()); });
  awaitSuccess(crew, 1);
}

void noPulling(Round& round) {
  Crew crew(3, round);
  const bool atStart = round.number() % 2 == 0;
  const int only = round.number() / 2 % 2 == 0 ? -1 : round.pick(crew.size());
  const auto deny = [only](int rank) {
    if (only < 0 || only == rank) {
      denySystemCalls({SYS_process_vm_readv, SYS_process_vm_writev});
    }
  };
  crew.setPreparation([&](int rank) {
    ::setenv("UNISONO_ALGO", "blocks=pull", 1);
    if (atStart) {
      deny(rank);
    }
  });
  crew.start([&](Member& member) {
    Group group = member.join();
    member.work(group, round.isThorough(), 20);
    if (!atStart) {
      deny(member.rank());
    }
    member.work(group, round.isThorough(), 40);
  });
  awaitSuccess(crew);
}

/// The store, once all have opened it: a file that everybody has left counts as one of an earlier
/// job, and who comes last would find it so.
StorePtr openTogether(const Crew& crew) {
  const auto store = std::make_shared<FileStore>(crew.storePath(), crew.size());
  store->add("here", 1);
  require(eventually([&] { return store->add("here", 0) == crew.size(); }), "not all have come");
  return store;
}

/// Whether this process has mapped any memory of a group.
bool sharesMemory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:unisono") != std::string::npos) {
      return true;
    }
  }
  return false;
}

/// All get through by TCP, and those who lack something say so, once. `takeAway` takes it from a
/// rank, at the last moment.
void workByTcp(Crew& crew, const std::function<bool(int)>& lacks,
               const std::function<void()>& takeAway) {
  crew.setPreparation([](int) {
    mesh::Harbour::instance().listenAt(*SocketAddress::parse("127.0.0.1", 0));  // it stays
  });
  crew.start([&](Member& member) {
    if (lacks(member.rank())) {
      takeAway();
    }
    Group group = member.join(std::chrono::seconds(20), openTogether(crew));
    member.report().phase.store(sharesMemory() ? 1 : 0);
    member.work(group, crew.isThorough(), 40);
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    const Report& seen = crew.report(rank);
    require(seen.operations.load() == 40, "rank ", rank, " did not get through: ", seen.text);
    require(seen.phase.load() == 0, "rank ", rank, " shares memory after all");
    require(seen.warnings.load() == (lacks(rank) ? 1 : 0), "rank ", rank, " warned ",
            seen.warnings.load(), " times");
  }
}

/// To all ranks, or to one of them.
void noMemfd(Round& round) {
  Crew crew(3, round);
  const int only = round.number() == 0 ? -1 : round.number() - 1;
  workByTcp(
      crew, [only](int rank) { return only < 0 || only == rank; },
      [] { denySystemCalls({SYS_memfd_create}); });
}

/// Neither the smallest ring fits; or not even what is needed before.
void noRoom(Round& round) {
  if (!mayMount()) {
    throw Skipped("needs the right to mount");
  }
  Crew crew(4, round);
  const std::uint64_t room = round.number() % 2 == 0 ? 300U << 10U : 0;
  workByTcp(
      crew, [](int rank) { return rank == 0; }, [room] { pretendCgroup(kReserve + room); });
}

/// Rank 0, which makes the memory, or another one, which only maps it.
void fewAddresses(Round& round) {
#ifdef UNISONO_SANITIZED
  throw Skipped("a sanitizer needs more addresses than any limit leaves");
#endif
  Crew crew(3, round);
  workByTcp(
      crew, [poor = round.number() % 2](int rank) { return rank == poor; },
      [] { limitAddresses(kReserve + (100U << 10U)); });
}

/// The same, where it was told to use nothing else.
void noMemfdButShm(Round& round) {
  Crew crew(3, round);
  crew.setPreparation([](int) {
    ::setenv("UNISONO_TRANSPORT", "shm", 1);
    denySystemCalls({SYS_memfd_create});
  });
  crew.start([&](Member& member) {
    Group group = member.join(std::chrono::seconds(20), openTogether(crew));
  });
  crew.awaitError(0);
  const Report& root = crew.report(0);
  require(static_cast<Reason>(root.reason.load()) == Reason::RESOURCE &&
              std::string(root.text).find("memfd_create") != std::string::npos,
          "rank 0 was not told what it cannot have: ", root.text);
  for (const int rank : {1, 2}) {
    judge(crew, rank,
          {.reasons = {Reason::RESOURCE},
           .culprits = {0},
           .text = "memfd_create",
           .hasGroup = false});
  }
  round.took(lastTold(crew, {1, 2}, 0));
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
  }
}

/// One rank may open so many descriptors and no more, from before it joins.
void fewDescriptors(Round& round) {
  Crew crew(3, round);
  const int poor = round.number() % 2;
  const int count = round.number() / 2;
  crew.start([&](Member& member) {
    std::optional<DescriptorLimit> limit;
    if (member.rank() == poor) {
      limit.emplace(count);
    }
    Group group = member.join(kPatience);
    member.work(group, false, 40);
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    Report& seen = crew.report(rank);
    require(eventually([&] { return seen.endedNs.load() != 0 || seen.operations.load() == 40; }),
            "rank ", rank, " hangs without descriptors for rank ", poor);
  }
  const Report& seen = crew.report(poor);
  const bool failed = seen.endedNs.load() != 0;
  require(!failed || static_cast<Reason>(seen.reason.load()) == Reason::RESOURCE, "rank ", poor,
          " with ", count, " descriptors was told something else: ", seen.text);
  for (int rank = 0; rank < crew.size(); ++rank) {
    const Report& other = crew.report(rank);
    require(failed == (other.endedNs.load() != 0), "only some got through: ", other.text,
            seen.text);
    if (failed && rank != poor) {
      round.took(other.endedNs.load() - other.calledNs.load());
    }
    crew.awaitEnd(rank);
  }
}

/// What a rank may be told when an allocation of rank `poor` has failed: of that rank, and of no
/// other. Where its group is untouched by that, it is the next call of that rank that fails, of
/// which the others know nothing: then both may be blamed, or who is waited for there. And who
/// comes to join when rank 0 has failed already, because of that rank, learns only that.
void judgeNoMemory(Crew& crew, int rank, int poor, int which) {
  constexpr Reason kKnown[] = {Reason::RESOURCE, Reason::PEER_LEFT, Reason::PEER_DEAD,
                               Reason::ABORTED,  Reason::TIMEOUT,   Reason::MISMATCH};
  const Report& seen = crew.report(rank);
  const Report& its = crew.report(poor);
  const auto reason = static_cast<Reason>(seen.reason.load());
  const bool lacks = std::string(its.text).find("bad_alloc") != std::string::npos;
  if (rank == poor && (lacks || reason == Reason::RESOURCE)) {
    return;
  }
  const bool isOfNextCall = lacks && its.nextReason.load() == seen.reason.load() &&
                            (reason == Reason::MISMATCH || reason == Reason::TIMEOUT);
  const bool cameLate = seen.operations.load() == 0 && crew.report(0).endedNs.load() != 0 &&
                        seen.culprits.load() == bitsOf({0}) &&
                        (reason == Reason::PEER_DEAD || reason == Reason::PEER_LEFT);
  require(isOfNextCall || cameLate || seen.culprits.load() == bitsOf({poor}), "rank ", rank,
          " blames others than rank ", poor, ", whose allocation ", which, " failed: ", seen.text);
  require(std::find(std::begin(kKnown), std::end(kKnown), reason) != std::end(kKnown), "rank ",
          rank, " was told something else of rank ", poor, ": ", seen.text);
}

/// One allocation of one rank fails, while it joins or while it works.
void noMemory(Round& round) {
  Crew crew(3, round);
  const int poor = round.pick(crew.size());
  const bool joining = round.number() % 2 == 0;
  const int which = round.pick(joining ? 200 : 60);
  crew.start([&](Member& member) {
    const StorePtr store = openTogether(crew);
    std::optional<test::FailingAllocation> fails;
    if (member.rank() == poor && joining) {
      fails.emplace(which);
    }
    Group group = member.join(kPatience, store);
    if (member.rank() == poor && !joining) {
      fails.emplace(which);
    }
    member.work(group, false, 40);
    fails.reset();
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    Report& seen = crew.report(rank);
    require(eventually([&] { return seen.endedNs.load() != 0 || seen.operations.load() == 40; }),
            "rank ", rank, " hangs without memory for rank ", poor, ", allocation ", which);
  }
  for (int rank = 0; rank < crew.size(); ++rank) {
    if (crew.report(rank).endedNs.load() != 0) {
      judgeNoMemory(crew, rank, poor, which);
    }
  }
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
  }
}

constexpr Row::Where kShmOnly = Row::Where::SHM_ONLY;

constexpr Row kRows[] = {
    {"F29", "LittleShm", "/dev/shm of 64 MiB, of 1 MiB, read-only, or none", "success", kNone,
     kNone, littleShm, 4, kShmOnly},
    {"F30", "LittleMemory", "a memory cgroup in which the rings have no room (pretended)",
     "success with smaller rings, one warning", kNone, kNone, littleMemory, 2, kShmOnly},
    {"F30b", "NoRoom", "a memory cgroup of rank 0 without room for the smallest ring (pretended)",
     "success by TCP, one warning", kNone, kNone, noRoom, 2, kShmOnly},
    {"F30c", "FewAddresses", "RLIMIT_AS without room for a ring, at rank 0 or another",
     "success by TCP, one warning", kNone, kNone, fewAddresses, 2, kShmOnly},
    {"F31", "NoPulling", "process_vm_readv is denied to all or one, from the start or later",
     "success", kNone, kNone, noPulling, 4, kShmOnly},
    {"F31b", "NoMemfd", "memfd_create is denied to all or one",
     "success by TCP, a warning by those who lack it", kNone, kNone, noMemfd, 4, kShmOnly},
    {"F31c", "NoMemfdButShm", "the same with UNISONO_TRANSPORT=shm",
     "RESOURCE on all, naming rank 0", kNone, kRefused, noMemfdButShm, 1, kShmOnly},
    {"F32", "FewDescriptors", "a rank may open only 0, 1, 2, … descriptors more; T = 3 s",
     "RESOURCE there, an error elsewhere; or success", kNone, kPatience + Milliseconds(50),
     fewDescriptors, 12, kShmOnly},
    {"F33", "NoMemory", "one allocation of a rank fails while it joins or works; T = 3 s",
     "an error that names the rank, or success; no crash, no wrong result", kNone, kNone, noMemory,
     12, kShmOnly},
};

}  // namespace

std::span<const Row> resourceRows() {
  return kRows;
}

}  // namespace unisono::fault
