#include "store/file/owners.hpp"

#include <fstream>
#include <gmock/gmock.h>

#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::Child;

RecordLog logOf(const std::vector<Record>& records) {
  RecordLog log;
  const std::string bytes = encodeChange(records);
  EXPECT_TRUE(log.replay(bytes, bytes.size()).isOk());
  return log;
}

Record refcount(int count) {
  return {std::string(kRefcountKey), str(count)};
}

/// A process of this host that is gone for certain.
ProcessMark deadProcess() {
  ProcessMark mark = thisProcess();
  mark.startTicks += 1;
  return mark;
}

TEST(ProcessMarkTest, SurvivesBeingWrittenAndRead) {
  const ProcessMark here = thisProcess();

  const auto read = decodeMark(encodeMark(here));

  ASSERT_TRUE(read);
  EXPECT_EQ(encodeMark(*read), encodeMark(here));
  EXPECT_EQ(read->pid, ::getpid());
  EXPECT_GT(read->startTicks, 0U);
}

TEST(ProcessMarkTest, IsNotReadOutOfGarbage) {
  for (const std::string_view text : {"", "x", "1 2", "-5 1 1 b h", "1 2 x b h"}) {
    EXPECT_FALSE(decodeMark(text)) << text;
  }
}

TEST(LifeTest, FindsALiveProcessAlive) {
  EXPECT_EQ(lifeOf(thisProcess(), thisProcess()), Life::ALIVE);
}

TEST(LifeTest, FindsAKilledProcessGoneEvenBeforeItIsReaped) {
  const test::TempDir folder;
  Child child([&](const Child::Tell& tell) {
    std::ofstream(folder.file("mark")) << encodeMark(thisProcess());
    tell();
  });
  ASSERT_TRUE(child.awaitWord());
  std::string text;
  std::getline(std::ifstream(folder.file("mark")), text);
  const std::optional<ProcessMark> mark = decodeMark(text);
  ASSERT_TRUE(mark);
  EXPECT_EQ(lifeOf(*mark, thisProcess()), Life::ALIVE);

  ::kill(child.pid(), SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(lifeOf(*mark, thisProcess()), Life::GONE);

  child.kill();
  EXPECT_EQ(lifeOf(*mark, thisProcess()), Life::GONE);
}

TEST(LifeTest, TellsALaterProcessOfTheSamePidFromTheOneMeant) {
  EXPECT_EQ(lifeOf(deadProcess(), thisProcess()), Life::GONE);
}

TEST(LifeTest, TakesAProcessFromBeforeTheLastBootForGone) {
  ProcessMark old = thisProcess();
  old.boot = "another-boot";

  EXPECT_EQ(lifeOf(old, thisProcess()), Life::GONE);
}

TEST(LifeTest, KnowsNothingOfOtherHostsAndContainers) {
  ProcessMark elsewhere = thisProcess();
  elsewhere.boot = "another-boot";
  elsewhere.host = "another-host";
  ProcessMark contained = deadProcess();
  contained.pidNamespace += 1;

  EXPECT_EQ(lifeOf(elsewhere, thisProcess()), Life::UNSEEN);
  EXPECT_EQ(lifeOf(contained, thisProcess()), Life::UNSEEN);
}

TEST(OccupancyTest, IsStaleOnlyWhenEverybodyIsKnownToBeGone) {
  const ProcessMark here = thisProcess();
  const Record dead = openRecord("1", deadProcess());
  ProcessMark elsewhere = here;
  elsewhere.boot = "another-boot";
  elsewhere.host = "another-host";

  EXPECT_TRUE(readOccupancy(logOf({dead, dead, refcount(2)}), here).isStale());
  EXPECT_TRUE(readOccupancy(logOf({dead, closeRecord("1"), refcount(0)}), here).isStale());
  EXPECT_TRUE(readOccupancy(logOf({{std::string(kHeaderKey), "id"}}), here).isStale());
  EXPECT_FALSE(readOccupancy(logOf({dead, openRecord("2", here), refcount(2)}), here).isStale());
  EXPECT_FALSE(
      readOccupancy(logOf({dead, openRecord("2", elsewhere), refcount(2)}), here).isStale());
  EXPECT_FALSE(readOccupancy(logOf({dead, {std::string(kOpenKey), "2 garbage"}, refcount(2)}), here)
                   .isStale());
}

TEST(OccupancyTest, CountsObjectsOfPyTorchThatHaveNotLeft) {
  const ProcessMark here = thisProcess();
  const Record dead = openRecord("1", deadProcess());

  EXPECT_EQ(readOccupancy(logOf({refcount(2)}), here).stock, 2);
  EXPECT_EQ(readOccupancy(logOf({dead, refcount(2)}), here).stock, 1);
  EXPECT_EQ(readOccupancy(logOf({dead, closeRecord("1"), refcount(1)}), here).stock, 1);
  EXPECT_FALSE(readOccupancy(logOf({dead, refcount(2)}), here).isStale());
  EXPECT_FALSE(readOccupancy(logOf({refcount(0)}), here).isStale()) << "not ours to judge";
}

}  // namespace
}  // namespace unisono
