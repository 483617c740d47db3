// What ends the formation of a group by TCP before its time is over.
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <memory>
#include <sys/file.h>
#include <sys/wait.h>
#include <thread>

#include "unisono/store/file_store.hpp"

#include "base/bytes.hpp"
#include "base/fd.hpp"
#include "base/process.hpp"
#include "net/listener.hpp"
#include "store/expect.hpp"
#include "support/forked.hpp"
#include "support/support.hpp"
#include "support/watch.hpp"
#include "transport/mesh_world.hpp"

namespace unisono::mesh {
namespace {

using test::Forked;
using test::meshOptions;
using test::ScopedEnv;
using test::TempDir;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// Far longer than it takes to find out.
constexpr Milliseconds kLong(30'000);

class FormingTest : public ::testing::Test {
 protected:
  StorePtr store(int size) const { return std::make_shared<FileStore>(folder_.file("s"), size); }
  std::string cardKey(int rank) const { return str("unisono/mesh/", cookie_, "/card/", rank); }

  /// Not while it holds the lock of the store, which nobody else could have then.
  void stop(const Forked& process) const {
    const UniqueFd file(::open(folder_.file("s").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);
    process.kill(SIGSTOP);
    ASSERT_TRUE(test::eventually([&] { return lookAt(process.pid())->state == 'T'; }));
  }

  std::unique_ptr<Mesh> form(int rank, int size, Milliseconds timeout = kLong) const {
    return Mesh::form(meshOptions(store(size), rank, size, cookie_, timeout));
  }
  /// The error of a rank whose group is not formed.
  std::string whyNot(int rank, int size) const {
    return textOf<DistBackendError>([&] { form(rank, size); });
  }
  void awaitCard(int rank) const { keep_->wait({cardKey(rank)}, 30s); }
  /// As if rank `rank` had come, whose process cannot be seen from here.
  void leaveCard(int rank, std::uint16_t port) const {
    ProcessMark process = thisProcess();
    process.pidNamespace += 1;
    const Member member{.host = "another",
                        .process = encodeMark(process),
                        .settings = "",
                        .address = "127.0.0.1",
                        .port = port};
    keep_->set(cardKey(rank), asBytes(member.encode()));
  }

  const TempDir folder_;
  const std::string cookie_ = randomId();
  const StorePtr keep_ = store(-1);  // the last one to go takes the file along
};

TEST_F(FormingTest, ARankThatDiesIsNamedWhileAnotherIsAwaited) {
  const Forked victim([&] { form(2, 4); });
  const Forked other([&] {
    const std::string text = whyNot(3, 4);
    const bool right = text.find("[PEER_DEAD]") != std::string::npos &&
                       text.find("culprits=[2]") != std::string::npos;
    ::_exit(right ? 42 : 43);
  });
  awaitCard(2);
  awaitCard(3);
  victim.kill(SIGKILL);
  EXPECT_THAT(whyNot(0, 4), AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[2]"),
                                  HasSubstr(str("process ", victim.pid())),
                                  HasSubstr("while the group was formed")));
  int status = 0;
  ASSERT_EQ(::waitpid(other.pid(), &status, 0), other.pid());
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST_F(FormingTest, RankZeroThatDiesIsNamedByThoseWhoWaitForIt) {
  const Forked root([&] { form(0, 3); });
  awaitCard(0);
  root.kill(SIGKILL);
  EXPECT_THAT(whyNot(1, 3), AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[0]")));
}

TEST_F(FormingTest, RankZeroThatDiesBeforeItHasLeftItsCardIsNamed) {
  auto root = std::make_unique<Forked>([] { ::pause(); });
  MeshOptions options = meshOptions(keep_, 1, 2, cookie_, kLong);
  ProcessMark process = thisProcess();
  process.pid = root->pid();
  process.startTicks = lookAt(root->pid())->startTicks;
  options.meet.root = encodeMark(process);
  root.reset();
  EXPECT_THAT(textOf<DistBackendError>([&] { Mesh::form(options); }),
              AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[0]")));
}

TEST_F(FormingTest, ARankThatIsStoppedIsNotTakenForDead) {
  const ScopedEnv netDead("UNISONO_NET_DEAD_MS", "1000");
  const Forked other([&] { form(1, 3); });
  awaitCard(1);
  stop(other);
  EXPECT_THAT(textOf<DistTimeoutError>([&] { form(0, 3, 4000ms); }),
              AllOf(HasSubstr("[TIMEOUT]"), HasSubstr("culprits=[2]")));
}

/// A port of this host at which nobody listens.
std::uint16_t closedPort() {
  return Listener::open("127.0.0.1", 0, "127.0.0.1", Deadline::after(20s)).port();
}

TEST_F(FormingTest, AProcessThatCannotBeSeenIsGoneWhenNobodyListensThere) {
  leaveCard(1, closedPort());
  EXPECT_THAT(whyNot(0, 3), AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[1]")));
}

TEST_F(FormingTest, RankZeroThatCannotBeSeenIsGoneWhenNobodyListensThere) {
  leaveCard(0, closedPort());
  EXPECT_THAT(whyNot(1, 3), AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[0]")));
}

TEST_F(FormingTest, WhoGivesUpTellsRankZeroWhomItWaitedFor) {
  std::string impatient;
  std::thread other([&] { impatient = textOf<DistTimeoutError>([&] { form(1, 3, 500ms); }); });
  const std::string told = textOf<DistTimeoutError>([&] { form(0, 3, kLong); });
  other.join();
  for (const std::string& text : {told, impatient}) {
    EXPECT_THAT(text, HasSubstr("not formed in 500ms: 2 of 3 ranks have come, not rank 2"));
    EXPECT_THAT(text, AllOf(HasSubstr("[TIMEOUT]"), HasSubstr("culprits=[2]")));
  }
}

}  // namespace
}  // namespace unisono::mesh
