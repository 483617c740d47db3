#include "base/process.hpp"

#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::Child;

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

TEST(ProcessMarkTest, IsNotMadeWithHolesWhenThereAreNoDescriptors) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::optional<Reason> reason;
  try {
    thisProcess();
  } catch (const DistError& error) {
    reason = error.reason();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(reason, Reason::RESOURCE);
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

TEST(ProcessStateTest, TellsRunningFromStopped) {
  EXPECT_EQ(lookAt(::getpid())->state, 'R');
  EXPECT_FALSE(lookAt(-1));
  EXPECT_FALSE(isDumpingCore(::getpid()));

  Child child([](const Child::Tell& tell) {
    tell();
    ::pause();
  });
  ASSERT_TRUE(child.awaitWord());
  ::kill(child.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_EQ(lookAt(child.pid())->state, 'T');
}

}  // namespace
}  // namespace unisono
