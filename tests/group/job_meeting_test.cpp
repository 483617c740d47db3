#include "group/job_meeting.hpp"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
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
    for (int round = 0; round < 30; ++round) {
      const auto store = meetOnHost(job, rank, 3, 30s);
      EXPECT_LE(store->add("met", 1), 3);
    }
  });
}

/// An invitation to a world of two as rank 0 makes it; locked until it is closed.
UniqueFd invitationWith(const std::string& job, const std::string& marks) {
  UniqueFd file(::open((meetingFiles(job) + ".now").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::string text = randomId() + marks;
  EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return file;
}

TEST(JobMeetingTest, APlaceIsTakenOnceEvenAfterRankZeroHasGoneOn) {
  const std::string job = randomId();
  const UniqueFd served = invitationWith(job, "-+");  // rank 1 has come, and comes once more

  EXPECT_THAT(textOf<DistStoreError>([&] { meetOnHost(job, 1, 2, 50ms); }),
              HasSubstr("rank 0 has not come"));
  std::filesystem::remove(meetingFiles(job) + ".now");
}

TEST(JobMeetingTest, AnInvitationToAnotherNumberOfRanksIsNotTaken) {
  const std::string job = randomId();
  const UniqueFd smaller = invitationWith(job, "--");

  EXPECT_THAT(textOf<DistStoreError>([&] { meetOnHost(job, 2, 3, 50ms); }),
              HasSubstr("rank 0 has not come"));
  std::filesystem::remove(meetingFiles(job) + ".now");
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
