// Stores that go away, and members that do not come or should not.
#include <cstdlib>

#include "unisono/store/file_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "base/wait.hpp"
#include "fault/judge.hpp"
#include "life/monitor.hpp"
#include "net/connect.hpp"
#include "net/handshake.hpp"
#include "net/net_support.hpp"
#include "transport/mesh/harbour.hpp"
#include "transport/mesh/wire.hpp"
#include "transport/root_record.hpp"
#include "transport/shm/layout.hpp"

namespace unisono::fault {
namespace {

constexpr Milliseconds kNone{0};
constexpr Milliseconds kSecond{1000};
constexpr Milliseconds kNoStore{500};
constexpr Milliseconds kAbsence{2000};  // T where a rank does not come: all others must within it
constexpr Milliseconds kLate{50};
const std::string kRootKey = "world/unisono/unisono/root";  // of a group called "world"
const std::string kHarbourKey = "harbour";                  // the port of rank 0

StorePtr clientOf(const test::ServerProcess& server) {
  return std::make_shared<TCPStore>("127.0.0.1", TCPStoreOptions{.port = server.port()});
}

/// The longest that one of `ranks` was in the call that threw.
std::int64_t longestCall(Crew& crew, const std::vector<int>& ranks) {
  return lastTold(crew, ranks, 0);
}

void storeDies(Round& round) {
  test::ServerProcess server;
  Crew crew(3, round);
  crew.start([&](Member& member) {
    Group group = member.join(std::chrono::seconds(20), clientOf(server));
    member.work(group, false, 5);
    member.awaitPhase(1);
    member.work(group, round.isThorough(), 20);
    const std::int64_t called = nowNs();
    try {
      group.newGroup({0, 1, 2});
    } catch (const std::exception& error) {
      const std::int64_t when = nowNs();
      member.work(group, round.isThorough(), 30);  // this one goes on
      member.report().calledNs.store(called);
      note(member.report(), error, when);
    }
  });
  crew.awaitOperations(5);
  server.kill();
  crew.setPhase(1);
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
    const Report& seen = crew.report(rank);
    require(static_cast<Reason>(seen.reason.load()) == Reason::STORE_LOST, "rank ", rank,
            " was told something else: ", seen.text);
    require(seen.operations.load() == 30, "the group of rank ", rank, " did not go on");
    require(seen.warnings.load() <= 1, "rank ", rank, " warned ", seen.warnings.load(), " times");
  }
  round.took(longestCall(crew, ranksBut(crew.size(), {})));
}

/// One rank has not come yet: rank 0, whom all look for in the store, or the last one.
void storeDiesEarly(Round& round) {
  test::ServerProcess server;
  Crew crew(3, round);
  const int missing = round.number() % 2 == 0 ? 2 : 0;
  const std::vector<int> there = ranksBut(crew.size(), {missing});
  for (const int rank : there) {
    crew.startOne(rank, rank, [&](Member& member) {
      Group group = member.join(std::chrono::seconds(20), clientOf(server));
    });
  }
  for (const int rank : there) {
    crew.awaitAsleep(rank);
  }
  const std::int64_t killed = nowNs();
  server.kill();
  round.took(lastTold(crew, there, killed));
  for (const int rank : there) {
    require(static_cast<Reason>(crew.report(rank).reason.load()) == Reason::STORE_LOST, "rank ",
            rank, " was told something else: ", crew.report(rank).text);
    crew.awaitEnd(rank);
  }
}

void noStore(Round& round) {
  const test::ClosedPort closed;
  const std::uint16_t port = closed.number();  // a forked child has no descriptors of ours
  Crew crew(2, round);
  crew.startOne(1, 1, [&](Member& member) {
    ::setenv("UNISONO_TIMEOUT", "0.5", 1);
    member.report().calledNs.store(nowNs());
    init({.url = str("tcp://127.0.0.1:", port, "?rank=1&world_size=2")});
  });
  judge(crew, 1,
        {.reasons = {Reason::PEER_UNREACHABLE},
         .kind = ErrorKind::NETWORK,
         .culprits = {},
         .text = str("127.0.0.1:", port),
         .hasGroup = false});
  round.took(longestCall(crew, {1}));
  crew.awaitEnd(1);
}

void neverJoins(Round& round) {
  Crew crew(4, round);
  const int missing = round.pick(crew.size());
  const std::vector<int> there = ranksBut(crew.size(), {missing});
  for (const int rank : there) {
    crew.startOne(rank, rank, [](Member& member) { Group group = member.join(kAbsence); });
  }
  for (const int rank : there) {
    judge(crew, rank,
          {.reasons = {Reason::TIMEOUT},
           .kind = ErrorKind::TIMEOUT,
           .culprits = {missing},
           .text = missing == 0 ? "rank 0 has not come"
                                : str("3 of 4 ranks have come, not rank ", missing),
           .hasGroup = false});
  }
  round.took(longestCall(crew, there));
  for (const int rank : there) {
    crew.awaitEnd(rank);
  }
}

/// Throws Broken unless the error of `slot` is about the two processes.
void checkClaim(Crew& crew, int slot, pid_t one, pid_t other) {
  crew.awaitError(slot);
  const std::string text = crew.report(slot).text;
  require(static_cast<Reason>(crew.report(slot).reason.load()) == Reason::CONFIG &&
              text.find("claimed twice") != std::string::npos &&
              text.find(str("process ", one)) != std::string::npos &&
              text.find(str("process ", other)) != std::string::npos,
          "process ", slot, " was not told who claims its rank: ", text);
}

/// Slots 1 and 2 both are rank 1, while rank 2 is still to come.
void claimedTwice(Round& round) {
  Crew crew(3, round);
  const Life life = [](Member& member) { Group group = member.join(); };
  crew.startOne(0, 0, life);
  crew.startOne(1, 1, life);
  crew.awaitAsleep(0);
  crew.awaitAsleep(1);
  crew.startOne(2, 1, life);
  for (int slot = 0; slot < 3; ++slot) {
    checkClaim(crew, slot, crew.process(1).pid(), crew.process(2).pid());
  }
  round.took(lastTold(crew, ranksBut(3, {}), crew.report(2).calledNs.load()));
  for (int slot = 0; slot < 3; ++slot) {
    crew.awaitEnd(slot);
  }
}

/// Slots 0 and 2 both are rank 0: the second one is refused, and the first meets rank 1.
void zeroClaimedTwice(Round& round) {
  Crew crew(2, round);
  const Life life = [](Member& member) {
    Group group = member.join();
    member.work(group, false, 5);
  };
  crew.startOne(0, 0, life);
  FileStore(crew.storePath()).wait({kRootKey}, std::chrono::seconds(20));
  crew.startOne(2, 0, life);
  checkClaim(crew, 2, crew.process(0).pid(), crew.process(2).pid());
  round.took(longestCall(crew, {2}));
  crew.startOne(1, 1, life);
  crew.awaitOperations(5);
  for (int slot = 0; slot < 3; ++slot) {
    crew.awaitEnd(slot);
  }
}

void claimed(Round& round) {
  round.number() % 2 == 0 ? claimedTwice(round) : zeroClaimedTwice(round);
}

/// Where this process is reached by TCP.
void tellHarbour(const std::string& path) {
  const auto here = SocketAddress::loopback(AF_INET, 0);
  FileStore(path).set(kHarbourKey, asBytes(str(mesh::Harbour::instance().listenAt(here))));
}

/// Whether who comes to rank 0 of a group by TCP, as its rank 1 would, is let in.
bool isLetIn(FileStore& store, const std::string& cookie) {
  store.wait({kHarbourKey}, std::chrono::seconds(20));
  const int port = std::stoi(std::string(asText(store.get(kHarbourKey))));
  Socket socket = connectTo("127.0.0.1", static_cast<std::uint16_t>(port), test::soon(),
                            std::chrono::seconds(20));
  const Key name = deriveKey(cookie, "mesh-id");
  const HandshakeConnector handshake(deriveKey(cookie, "mesh"),
                                     {reinterpret_cast<const char*>(name.data()), kHandshakeIdSize},
                                     mesh::Note{.from = 1, .to = 0}.encode());
  std::string challenge(kChallengeSize, '\0');
  char answer = mesh::kGone;
  if (socket.sendAll(handshake.hello(), test::soon()).isDone() &&
      socket.recvExact(challenge.data(), challenge.size(), test::soon()).isDone()) {
    const auto proof = handshake.prove(challenge);
    require(proof.has_value(), "rank 0 has another secret");
    static_cast<void>(socket.sendAll(*proof, test::soon()));
    static_cast<void>(socket.recvExact(&answer, 1, test::soon()));
  }
  return answer == kWelcome;
}

/// Reads where group "world" is met, and asks there again when that group is gone.
void comeTooLate(Member& member, const std::string& path, Way way) {
  FileStore store(path);
  store.wait({kRootKey}, std::chrono::seconds(20));
  const Bytes bytes = store.get(kRootKey);
  const auto root = RootRecord::decode(asText(bytes));
  require(root.has_value(), "what rank 0 leaves in the store is not understood");
  member.report().operations.store(1);
  member.awaitPhase(1);
  if (way != Way::SHM) {
    require(!isLetIn(store, root->cookie), "somebody who knows an old group was let in");
    return;
  }
  const JoinRequest request{.version = shm::kVersion,
                            .size = 2,
                            .rank = 1,
                            .settings = "",
                            .process = encodeMark(thisProcess())};
  const Result<LocalMessage> reply =
      askMonitor(root->socket, root->cookie, str("J", request.encode()), test::soon());
  require(!reply.isOk(), "somebody who knows an old group was answered");
}

void stale(Round& round) {
  Crew crew(2, round);
  const Life life = [&](Member& member) {
    if (member.rank() == 0 && round.way() != Way::SHM) {
      tellHarbour(crew.storePath());
    }
    { Group old = member.join(); }
    Group group = member.join();
    member.work(group, false, 5);
    member.awaitPhase(1);
    member.work(group, false, 10);
  };
  crew.startOne(0, 0, life);
  crew.startOne(2, 1, [&](Member& member) { comeTooLate(member, crew.storePath(), round.way()); });
  require(eventually([&] { return crew.report(2).operations.load() == 1; }),
          "rank 0 is not to be found: ", crew.report(2).text);
  crew.startOne(1, 1, life);
  crew.awaitOperations(5);
  crew.report(2).phase.store(1);
  crew.awaitEnd(2);
  require(crew.report(2).endedNs.load() == 0, crew.report(2).text);
  crew.setPhase(1);
  crew.awaitOperations(10);
  for (int rank = 0; rank < 2; ++rank) {
    crew.awaitEnd(rank);
  }
}

constexpr Row kRows[] = {
    {"F23", "StoreDiesLater", "the store's process is killed after the group was formed",
     "the group goes on; newGroup() STORE_LOST; at most one warning", kNone, kSecond, storeDies},
    {"F24", "StoreDiesEarly", "the store's process is killed while the group is formed",
     "STORE_LOST on all", kNone, kSecond, storeDiesEarly},
    {"F25", "NoStore", "nobody listens where the store should be; T = 0.5 s",
     "PEER_UNREACHABLE, the addresses tried", kNoStore, kLate, noStore, 1},
    {"F26", "NeverJoins", "one of four ranks does not join; T = 2 s",
     "TIMEOUT, how many have come and who has not", kAbsence, kLate, neverJoins},
    {"F27", "ClaimedTwice", "two processes claim one rank", "CONFIG, both processes", kNone,
     kSecond, claimed},
    {"F28", "Stale", "a process asks for a group that is gone", "it gets no answer; others go on",
     kNone, kNone, stale, 1},
};

}  // namespace

std::span<const Row> storeRows() {
  return kRows;
}

}  // namespace unisono::fault
