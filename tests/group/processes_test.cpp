// Ranks that are processes: every algorithm, by every operation that can take it.
#include <array>
#include <cstdlib>
#include <gmock/gmock.h>
#include <memory>
#include <sys/wait.h>

#include "unisono/group/group.hpp"
#include "unisono/store/file_store.hpp"

#include "support/server_process.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

constexpr int kRanks = 3;

/// What rank `from` gives to rank `to`; different for each place.
std::vector<std::int64_t> values(int from, int to, std::size_t count) {
  std::vector<std::int64_t> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = static_cast<std::int64_t>(i) * 100 + from * 10 + to;
  }
  return all;
}

/// Those of all ranks, by rank.
template <typename Of>
std::vector<std::int64_t> joined(Of of) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<std::int64_t> part = of(rank);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// The sums of what all give to `to`.
std::vector<std::int64_t> sums(int to, std::size_t count) {
  std::vector<std::int64_t> all(count);
  for (int from = 0; from < kRanks; ++from) {
    const std::vector<std::int64_t> one = values(from, to, count);
    for (std::size_t i = 0; i < count; ++i) {
      all[i] += one[i];
    }
  }
  return all;
}

/// The first operation that gave something wrong; 0: none did.
int wrongWith(Group& group, std::size_t count) {
  const int me = group.rank();
  const auto toAll = joined([&](int to) { return values(me, to, count); });
  std::vector<std::int64_t> all(toAll.size());
  std::vector<std::int64_t> part(count);

  std::vector<std::int64_t> data = values(me, 0, count);
  group.allReduce(data);
  if (data != sums(0, count)) {
    return 1;
  }
  data = values(me, 0, count);
  group.reduce(data, {.root = 1});
  if (data != (me == 1 ? sums(0, count) : values(me, 0, count))) {
    return 2;
  }
  group.broadcast(data, {.root = 1});
  if (data != sums(0, count)) {
    return 3;
  }
  group.allGather(values(me, 0, count), all);
  if (all != joined([&](int from) { return values(from, 0, count); })) {
    return 4;
  }
  group.reduceScatter(toAll, part);
  if (part != sums(me, count)) {
    return 5;
  }
  group.allToAll(toAll, all);
  if (all != joined([&](int from) { return values(from, me, count); })) {
    return 6;
  }
  return 0;
}

/// What the ranks are told.
struct Told {
  const char* algorithm;
  std::array<const char*, kRanks> hosts = {"", "", ""};
  const char* transport = "";
};

void PrintTo(const Told& told, std::ostream* out) {
  *out << told.algorithm << " " << told.transport << told.hosts[1] << told.hosts[2];
}

class ProcessesTest : public ::testing::TestWithParam<Told> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, ProcessesTest,
                         ::testing::Values(Told{""}, Told{"allreduce=ll"}, Told{"allreduce=last"},
                                           Told{"allreduce=flat"}, Told{"allreduce=slices"},
                                           Told{"blocks=slots"}, Told{"blocks=pull"}));
constexpr std::array<const char*, kRanks> kTwoHosts = {"a", "b", "b"};
constexpr std::array<const char*, kRanks> kThreeHosts = {"a", "b", "c"};
INSTANTIATE_TEST_SUITE_P(
    ByTcp, ProcessesTest,
    ::testing::Values(
        Told{"", {"", "", ""}, "tcp"}, Told{"", kTwoHosts}, Told{"", kThreeHosts},
        Told{"allreduce=tcp/doubling,reduce=tcp/binomial,broadcast=tcp/binomial", kTwoHosts},
        Told{"allreduce=tcp/halving,reduce=tcp/ring,broadcast=tcp/scattered", kThreeHosts},
        Told{"allreduce=tcp/ring,allgather=tcp/bruck,alltoall=tcp/direct", kTwoHosts},
        Told{"allreduce=tcp/gathered,allgather=tcp/ring,alltoall=tcp/pairwise", kThreeHosts},
        Told{"reducescatter=tcp/direct", kTwoHosts}, Told{"reducescatter=tcp/ring", kThreeHosts}));

TEST_P(ProcessesTest, GetTheSameAsOthersDo) {
  const test::TempDir folder;
  std::vector<std::unique_ptr<test::Process>> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.push_back(std::make_unique<test::Process>([&, rank] {
      ::setenv("UNISONO_ALGO", GetParam().algorithm, 1);
      ::setenv("UNISONO_HOST_ID", GetParam().hosts[static_cast<std::size_t>(rank)], 1);
      ::setenv("UNISONO_TRANSPORT", GetParam().transport, 1);
      Group group = init({.store = std::make_shared<FileStore>(folder.file("store"), kRanks),
                          .rank = rank,
                          .size = kRanks,
                          .timeout = std::chrono::seconds(60)});
      for (const std::size_t count : {1U, 7U, 301U, 10'007U, 100'003U}) {
        if (const int wrong = wrongWith(group, count); wrong != 0) {
          return wrong;
        }
      }
      group.barrier();  // nobody leaves while others may still read
      return 0;
    }));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const int status = processes[static_cast<std::size_t>(rank)]->join();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << rank << " ended with " << WEXITSTATUS(status)
        << " (100: it threw; else which operation of wrongWith() gave something wrong)";
  }
}

}  // namespace
}  // namespace unisono
