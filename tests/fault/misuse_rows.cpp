// Ranks that end the group on purpose, or call something else than the others.
#include "fault/judge.hpp"

namespace unisono::fault {
namespace {

void aborted(Round& round) {
  Crew crew(4, round);
  const int who = round.pick(crew.size());
  crew.start([&](Member& member) {
    Group group = member.join();
    if (member.rank() != who) {
      member.work(group, round.isThorough());
      return;
    }
    member.work(group, round.isThorough(), 5);
    member.call(group, [&] {
      group.processGroup().abort();
      group.barrier();
    });
  });
  for (int rank = 0; rank < crew.size(); ++rank) {
    judge(crew, rank,
          {.reasons = {Reason::ABORTED},
           .culprits = {who},
           .text = rank == who ? "this rank aborted" : str("rank ", who, " called abort()")});
  }
  round.took(lastTold(crew, ranksBut(crew.size(), {who}), crew.report(who).calledNs.load()));
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
  }
}

/// What most ranks call, or what the odd one does.
struct Call {
  const char* text;  // how the error describes it
  void (*run)(Group& group, std::size_t count);
};

CallOptions reducedBy(bool largest) {
  return {.op = largest ? ReduceOp::MAX : ReduceOp::SUM};
}

template <typename T>
void allReduce(Group& group, std::size_t count, bool largest = false) {
  std::vector<T> values(count, T{1});
  group.allReduce(values, reducedBy(largest));
}

void broadcastFrom(Group& group, std::size_t count, int root) {
  std::vector<std::int32_t> values(count, 1);
  group.broadcast(values, {.root = root});
}

constexpr Call kUsual[] = {
    {"all_reduce(int32", [](Group& group, std::size_t n) { allReduce<std::int32_t>(group, n); }},
    {"all_reduce(int32", [](Group& group, std::size_t n) { allReduce<std::int32_t>(group, n); }},
    {"all_reduce(int32", [](Group& group, std::size_t n) { allReduce<std::int32_t>(group, n); }},
    {"all_reduce(int32", [](Group& group, std::size_t n) { allReduce<std::int32_t>(group, n); }},
    {"broadcast(int32", [](Group& group, std::size_t n) { broadcastFrom(group, n, 0); }},
};
constexpr Call kOdd[] = {
    {"barrier", [](Group& group, std::size_t) { group.barrier(); }},
    {"all_reduce(float32", [](Group& group, std::size_t n) { allReduce<float>(group, n); }},
    {"all_reduce(int32",
     [](Group& group, std::size_t n) { allReduce<std::int32_t>(group, n + 1); }},
    {"MAX", [](Group& group, std::size_t n) { allReduce<std::int32_t>(group, n, true); }},
    {"root 1", [](Group& group, std::size_t n) { broadcastFrom(group, n, 1); }},
};

/// `odd` and the one other rank that `named` has; just `odd` when there is none, or several.
std::vector<int> pairWith(int odd, std::uint32_t named, int size) {
  for (int other = 0; other < size; ++other) {
    if (other != odd && named == bitsOf({odd, other})) {
      return {odd, other};
    }
  }
  return {odd};
}

void mismatched(Round& round) {
  Crew crew(4, round);
  const int odd = round.pick(crew.size());
  const auto kind = static_cast<std::size_t>(round.number() % 5);
  static constexpr std::size_t kCounts[] = {1, 1000, 300'000};
  const std::size_t count = kCounts[round.pick(3)];
  crew.start([&](Member& member) {
    Group group = member.join();
    member.work(group, false, 5);
    if (member.rank() == odd) {
      member.awaitPhase(1);
    }
    member.call(group, [&] {
      (member.rank() == odd ? kOdd : kUsual)[kind].run(group, count);
      group.barrier();  // who gave without taking is told by its next call
    });
  });
  crew.awaitOperations(5);
  for (const int rank : ranksBut(crew.size(), {odd})) {
    crew.awaitAsleep(rank);
  }
  crew.setPhase(1);
  for (int rank = 0; rank < crew.size(); ++rank) {
    Verdict verdict{.reasons = {Reason::MISMATCH}, .culprits = {odd}, .text = kOdd[kind].text};
    if (round.isByTcp()) {
      // Two ranks that hear of each other's calls cannot know which is the odd one.
      crew.awaitError(rank);
      verdict.culprits = pairWith(odd, crew.report(rank).culprits.load(), crew.size());
    }
    judge(crew, rank, verdict);
    require(std::string(crew.report(rank).text).find(kUsual[kind].text) != std::string::npos,
            "rank ", rank, " does not say what most called: ", crew.report(rank).text);
  }
  round.took(lastTold(crew, ranksBut(crew.size(), {}), crew.report(odd).calledNs.load()));
  for (int rank = 0; rank < crew.size(); ++rank) {
    crew.awaitEnd(rank);
  }
}

constexpr Row kRows[] = {
    {"F12", "Aborted", "a rank calls abort() while the others work", "ABORTED, the rank",
     Milliseconds(0), Milliseconds(50), aborted, 3},
    {"F13", "Mismatched", "a rank calls another operation, type, size, reduction or root",
     "MISMATCH on all, the rank (by TCP: and one other), both calls", Milliseconds(0),
     Milliseconds(100), mismatched, 5},
};

}  // namespace

std::span<const Row> misuseRows() {
  return kRows;
}

}  // namespace unisono::fault
