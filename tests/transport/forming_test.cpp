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
    leaveCard(rank, port, thisProcess().boot, "127.0.0.1");
  }
  /// The same of a host that has started as `boot`, at `address`.
  void leaveCard(int rank, std::uint16_t port, const std::string& boot,
                 const std::string& address) const {
    ProcessMark process = thisProcess();
    process.pidNamespace += 1;
    process.boot = boot;
    const Member member{.host = "another",
                        .process = encodeMark(process),
                        .settings = "",
                        .addresses = {{address, port}}};
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

ProcessMark processThatDied() {
  const Forked process([] { ::pause(); });
  ProcessMark mark = thisProcess();
  mark.pid = process.pid();
  mark.startTicks = lookAt(process.pid())->startTicks;
  return mark;
}

TEST_F(FormingTest, RankZeroThatDiesBeforeItHasLeftItsCardIsNamed) {
  MeshOptions options = meshOptions(keep_, 1, 2, cookie_, kLong);
  options.meet.root = encodeMark(processThatDied());
  EXPECT_THAT(textOf<DistBackendError>([&] { Mesh::form(options); }),
              AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[0]")));
}

TEST_F(FormingTest, ItsDeathIsToldToThoseWhoCannotSeeIt) {
  MeshOptions seeing = meshOptions(keep_, 1, 3, cookie_, kLong);
  seeing.meet.root = encodeMark(processThatDied());
  EXPECT_THAT(textOf<DistBackendError>([&] { Mesh::form(seeing); }), HasSubstr("culprits=[0]"));
  EXPECT_THAT(whyNot(2, 3), AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[0]")));
}

TEST_F(FormingTest, TheWordOfThoseWhoSawRankZeroDieElsewhereIsTaken) {
  MeshOptions options = meshOptions(keep_, 1, 2, cookie_, kLong);
  options.hearsay.saidForRoot = [] {
    return AbortCause{.reason = Reason::PEER_DEAD, .culprits = {0}, .text = "rank 0 is no more"};
  };
  EXPECT_THAT(textOf<DistBackendError>([&] { Mesh::form(options); }),
              AllOf(HasSubstr("[PEER_DEAD]"), HasSubstr("culprits=[0]"), HasSubstr("is no more")));
}

TEST_F(FormingTest, NobodyLearnsOfAGroupWhoseRankZeroCannotBeAskedYet) {
  MeshOptions options = meshOptions(keep_, 0, 1, cookie_, kLong);
  options.hearsay.announce = [&] {
    EXPECT_TRUE(keep_->check({cardKey(0)}));
    throw DistBackendError({.reason = Reason::CONFIG, .what = "there is another rank 0"});
  };
  EXPECT_THAT(textOf<DistBackendError>([&] { Mesh::form(options); }), HasSubstr("another rank 0"));
  EXPECT_FALSE(keep_->check({cardKey(0)})) << "of a group that there is not";
}

TEST_F(FormingTest, NobodyGoesOnBeforeWhatTheyMetByIsTakenBack) {
  std::thread root([&] {
    MeshOptions options = meshOptions(keep_, 0, 2, cookie_, kLong);
    options.hearsay.close = [&] {
      EXPECT_TRUE(keep_->check({cardKey(1)})) << "it is closed once all have come";
      EXPECT_FALSE(keep_->check({str("unisono/mesh/", cookie_, "/roster")}))
          << "then they are told";
    };
    Mesh::form(options);
  });
  form(1, 2);
  root.join();
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

TEST_F(FormingTest, OfSeveralAddressesTheOneThatAnswersIsTaken) {
  std::vector<Member> known;
  const auto thrown = test::onThreads(2, [&](int rank) {
    if (rank == 0) {  // once rank 1 has left its card, which gets an address where nobody is
      awaitCard(1);
      Member other = Member::decode(asText(keep_->get(cardKey(1)))).value();
      other.addresses.insert(other.addresses.begin(), {"127.0.0.1", closedPort()});
      keep_->set(cardKey(1), asBytes(other.encode()));
    }
    const test::MeshRank mine(meshOptions(store(2), rank, 2, cookie_, kLong), 2);
    std::byte byte{};
    test::operate(*mine.courier, [&] {
      mine.courier->exchange({1 - rank, {&byte, 1}}, {.rank = 1 - rank, .block = {&byte, 1}});
    });
    if (rank == 0) {
      known = mine.mesh->roster();
    }
  });
  EXPECT_THAT(thrown, ::testing::Each(nullptr));
  EXPECT_EQ(known[1].addresses.size(), 2U);
}

TEST_F(FormingTest, LeavesNothingInTheStore) {
  for (const int size : {1, 2, 5}) {
    const auto store = std::make_shared<HashStore>();
    const std::string cookie = randomId();
    const auto thrown = test::onThreads(
        size, [&](int rank) { Mesh::form(meshOptions(store, rank, size, cookie, kLong)); });
    EXPECT_THAT(thrown, ::testing::Each(nullptr));
    EXPECT_EQ(store->numKeys(), 0) << size << " ranks";
  }
}

/// One rank's way to a store: counts what it asks for, but for what it deletes.
class CountingStore final : public Store {
 public:
  explicit CountingStore(StorePtr store) : inner_(std::move(store)) {}
  void set(std::string_view key, BytesView value) override { counted().set(key, value); }
  Bytes get(std::string_view key) override { return counted().get(key); }
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override {
    return counted().compareSet(key, expected, desired);
  }
  std::int64_t add(std::string_view key, std::int64_t by) override {
    return counted().add(key, by);
  }
  bool deleteKey(std::string_view key) override { return inner_->deleteKey(key); }
  bool check(std::span<const std::string> keys) override { return counted().check(keys); }
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    counted().wait(keys, timeout);
  }
  std::vector<Bytes> multiGet(std::span<const std::string> keys) override {
    return counted().multiGet(keys);
  }
  std::int64_t numKeys() override { return counted().numKeys(); }
  std::shared_ptr<Store> clone() override { return nullptr; }

  int calls = 0;

 private:
  Store& counted() {
    ++calls;
    return *inner_;
  }
  const StorePtr inner_;
};

TEST_F(FormingTest, WhatARankAsksOfTheStoreDoesNotGrowWithTheGroup) {
  constexpr int kSize = 12;
  const auto shared = std::make_shared<HashStore>();
  std::vector<int> calls(kSize);
  const auto thrown = test::onThreads(kSize, [&](int rank) {
    const auto mine = std::make_shared<CountingStore>(shared);
    if (rank == 0) {  // so that nobody has to look after somebody who is late
      for (int other = 1; other < kSize; ++other) {
        shared->wait({cardKey(other)}, 60s);
      }
    }
    const auto mesh = Mesh::form(meshOptions(mine, rank, kSize, cookie_, kLong));
    calls[static_cast<std::size_t>(rank)] = mine->calls;
  });
  EXPECT_THAT(thrown, ::testing::Each(nullptr));
  EXPECT_EQ(calls.front(), 5) << "card; wait for all, get all; roster; settled";
}

TEST_F(FormingTest, ALoopbackAddressIsOfNoUseToAnotherHost) {
  leaveCard(1, 5, "another-boot", "192.0.2.7");
  EXPECT_THAT(whyNot(0, 2),
              AllOf(HasSubstr("rank 0"), HasSubstr("loopback address only"),
                    HasSubstr("rank 1 is on another host"), HasSubstr("UNISONO_HOST_ADDR"),
                    HasSubstr("[CONFIG]"), HasSubstr("culprits=[0]")));
}

TEST_F(FormingTest, ALoopbackAddressBesideRankZeroIsFoundToo) {
  const ScopedEnv advertised("UNISONO_ADVERTISE", "192.0.2.7");
  // Whichever of the two is looked at first.
  for (const int fault : {1, 2}) {
    leaveCard(fault, 5);
    leaveCard(3 - fault, 5, "another-boot", "192.0.2.8");
    EXPECT_THAT(whyNot(0, 3),
                AllOf(HasSubstr(str("rank ", fault, " (on ")), HasSubstr("loopback address only"),
                      HasSubstr("[CONFIG]"), HasSubstr(str("culprits=[", fault, "]"))));
    keep_->deleteKey(cardKey(0));
    keep_->deleteKey(str("unisono/mesh/", cookie_, "/roster"));
  }
}

}  // namespace
}  // namespace unisono::mesh
