#include "group/job_meeting.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

#include "base/random.hpp"
#include "store/expect.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::onThreads;
using test::textOf;
using ::testing::HasSubstr;

/// How many files of a job there are.
int filesOf(const std::string& job) {
  const std::filesystem::path stem = meetingFiles(job);
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator(stem.parent_path())) {
    count += each.path().filename().string().starts_with(stem.filename().string()) ? 1 : 0;
  }
  return count;
}

void onRanks(int count, const std::function<void(int)>& body) {
  for (const std::exception_ptr& thrown : onThreads(count, body)) {
    EXPECT_FALSE(thrown);
  }
}

TEST(JobMeetingTest, BringsAllRanksToOneStoreAndLeavesNothing) {
  const std::string job = randomId();
  for (int round = 0; round < 3; ++round) {
    onRanks(4, [&](int rank) {
      const auto store = meetOnHost(job, rank, 4, 30s);
      store->add("met", 1);
      store->barrier("end", 4, 30s);
      EXPECT_EQ(store->add("met", 0), 4);
    });
  }

  EXPECT_EQ(filesOf(job), 0);
}

TEST(JobMeetingTest, IsLeftAtDifferentTimesAndMadeAgainAtOnce) {
  const std::string job = randomId();
  onRanks(3, [&](int rank) {
    for (int round = 0; round < 10; ++round) {
      const auto store = meetOnHost(job, rank, 3, 30s);
      EXPECT_LE(store->add("met", 1), 3);
    }
  });
}

TEST(JobMeetingTest, PaysNoHeedToAnInvitationOfSomebodyWhoIsGone) {
  const std::string job = randomId();
  std::ofstream(meetingFiles(job) + ".now") << randomId();  // not locked

  onRanks(2, [&](int rank) { meetOnHost(job, rank, 2, 30s)->barrier("end", 2, 30s); });

  EXPECT_EQ(filesOf(job), 0);
}

TEST(JobMeetingTest, KeepsJobsApart) {
  const std::string jobs[] = {randomId(), randomId()};
  onRanks(4, [&](int thread) {
    const auto store = meetOnHost(jobs[thread / 2], thread % 2, 2, 30s);
    store->add("met", 1);
    store->barrier("end", 2, 30s);
    EXPECT_EQ(store->add("met", 0), 2);
  });
}

TEST(JobMeetingTest, SaysWhoHasNotComeAndLeavesNothing) {
  const std::string job = randomId();
  EXPECT_THAT(textOf<DistStoreError>([&] { meetOnHost(job, 0, 2, 50ms); }),
              HasSubstr("rank 1 has not come"));
  EXPECT_EQ(filesOf(job), 0);
  EXPECT_THAT(textOf<DistStoreError>([] { meetOnHost(randomId(), 1, 2, 50ms); }),
              HasSubstr("rank 0 has not come"));
}

}  // namespace
}  // namespace unisono
