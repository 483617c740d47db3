// Messages between two ranks, between threads that are ranks.
#include <algorithm>
#include <future>
#include <gmock/gmock.h>
#include <numeric>

#include "backend/native_world.hpp"
#include "base/str.hpp"
#include "support/blocked_call.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::reasonOf;
using test::textOf;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr P2POptions kNow{.asyncOp = false};

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

class MailTest : public ::testing::TestWithParam<int> {
 protected:
  NativeWorld world{GetParam()};
  const int n = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Ranks, MailTest, ::testing::Values(1, 2, 3, 5));

// Empty, short, about as long as goes at once, longer than the pipe, than what is read at once.
constexpr std::size_t kCounts[] = {0, 1, 1000, 4095, 4096, 4128, 4129, 16'384, 300'000};

TEST_P(MailTest, GoesRoundInARing) {
  world.run([&](NativeBackend& rank) {
    const int next = (rank.rank() + 1) % n;
    const int before = (rank.rank() + n - 1) % n;
    for (const std::size_t count : kCounts) {
      std::vector<int> mine = numbers(count, rank.rank());
      std::vector<int> theirs(count, -1);
      const WorkPtr sent = rank.send({Tensor(mine)}, next, 3);
      const WorkPtr received = rank.recv({Tensor(theirs)}, before, 3, kNow);
      EXPECT_TRUE(received->wait());
      EXPECT_EQ(received->sourceRank(), before);
      EXPECT_TRUE(sent->wait());
      ASSERT_EQ(theirs, numbers(count, before)) << count;
    }
  });
}

TEST_P(MailTest, WhoWaitsAtOnceGetsTheSame) {
  world.run([&](NativeBackend& rank) {
    const int next = (rank.rank() + 1) % n;
    const int before = (rank.rank() + n - 1) % n;
    for (int turn = 0; turn < 200; ++turn) {
      std::vector<int> mine = numbers(static_cast<std::size_t>(turn), rank.rank());
      std::vector<int> theirs(mine.size(), -1);
      EXPECT_TRUE(rank.send({Tensor(mine)}, next, turn % 3, kNow)->wait());
      const WorkPtr received = rank.recv({Tensor(theirs)}, before, turn % 3, kNow);
      EXPECT_TRUE(received->wait());
      EXPECT_EQ(received->sourceRank(), before);
      ASSERT_EQ(theirs, numbers(mine.size(), before)) << turn;
    }
  });
}

TEST_P(MailTest, AllMaySendBeforeAnyReceives) {
  world.run([&](NativeBackend& rank) {
    std::vector<std::vector<int>> out;
    std::vector<std::vector<int>> in(static_cast<std::size_t>(n), std::vector<int>(20'000));
    std::vector<WorkPtr> works;
    for (int peer = 0; peer < n; ++peer) {
      out.push_back(numbers(20'000, rank.rank() * 100 + peer));
      works.push_back(rank.send({Tensor(out.back())}, peer));
    }
    for (int peer = 0; peer < n; ++peer) {
      works.push_back(rank.recv({Tensor(in[static_cast<std::size_t>(peer)])}, peer));
    }
    for (const WorkPtr& work : works) {
      EXPECT_TRUE(work->wait());
    }
    for (int peer = 0; peer < n; ++peer) {
      ASSERT_EQ(in[static_cast<std::size_t>(peer)], numbers(20'000, peer * 100 + rank.rank()));
    }
  });
}

TEST_P(MailTest, AnySourceTellsWhoItWas) {
  world.run([&](NativeBackend& rank) {
    int mine = rank.rank();
    for (int peer = 0; peer < n; ++peer) {
      rank.send({Tensor(std::span(&mine, 1))}, peer, 7);
    }
    std::vector<int> sources;
    for (int i = 0; i < n; ++i) {
      int got = -1;
      const WorkPtr work = rank.recvAnysource({Tensor(std::span(&got, 1))}, 7);
      EXPECT_TRUE(work->wait());
      EXPECT_EQ(work->sourceRank(), got);
      sources.push_back(got);
    }
    std::sort(sources.begin(), sources.end());
    EXPECT_EQ(sources, numbers(static_cast<std::size_t>(n), 0));
  });
}

TEST_P(MailTest, CollectivesAndMessagesDoNotMindEachOther) {
  world.run([&](NativeBackend& rank) {
    const int next = (rank.rank() + 1) % n;
    const int before = (rank.rank() + n - 1) % n;
    for (int turn = 0; turn < 30; ++turn) {
      std::vector<int> out(5000, turn);
      std::vector<int> in(5000);
      std::vector<float> sum(100, 1.0F);
      const WorkPtr receiving = rank.recv({Tensor(in)}, before);
      const WorkPtr reducing = rank.allreduce({Tensor(sum)});
      const WorkPtr sending = rank.send({Tensor(out)}, next);
      EXPECT_TRUE(reducing->wait());
      EXPECT_TRUE(receiving->wait());
      EXPECT_TRUE(sending->wait());
      EXPECT_THAT(in, Each(turn));
      EXPECT_THAT(sum, Each(static_cast<float>(n)));
    }
  });
}

// Where the kernel does not let a process read another, the bytes go through the pipe.
TEST(MailWithoutReadingPeersTest, LongMessagesArriveAllTheSame) {
  const test::ScopedEnv off("UNISONO_CMA", "off");
  NativeWorld world{2};
  world.run([&](NativeBackend& rank) {
    for (const std::size_t count : kCounts) {
      std::vector<int> mine = numbers(count, rank.rank());
      std::vector<int> theirs(count, -1);
      const WorkPtr sent = rank.send({Tensor(mine)}, 1 - rank.rank());
      EXPECT_TRUE(rank.recv({Tensor(theirs)}, 1 - rank.rank())->wait());
      EXPECT_TRUE(sent->wait());
      ASSERT_EQ(theirs, numbers(count, 1 - rank.rank())) << count;
    }
  });
}

class PairTest : public ::testing::Test {
 protected:
  /// What rank 0 does, and what rank 1.
  std::vector<std::exception_ptr> outcomes(const std::function<void(NativeBackend&)>& zero,
                                           const std::function<void(NativeBackend&)>& one) {
    return world.outcomes([&](NativeBackend& rank) { rank.rank() == 0 ? zero(rank) : one(rank); });
  }
  void run(const std::function<void(NativeBackend&)>& zero,
           const std::function<void(NativeBackend&)>& one) {
    world.run([&](NativeBackend& rank) { rank.rank() == 0 ? zero(rank) : one(rank); });
  }
  NativeWorld world{2};
};

TEST_F(PairTest, TagsAreIndependentAndEachIsInOrder) {
  std::vector<int> longOne = numbers(50'000, 0);
  std::vector<int> values = numbers(6, 10);
  run(
      [&](NativeBackend& rank) {
        std::vector<WorkPtr> works{rank.send({Tensor(longOne)}, 1, 1)};
        for (std::size_t i = 0; i < 6; ++i) {
          works.push_back(rank.send({Tensor(std::span(&values[i], 1))}, 1, i % 2 == 0 ? 2 : 1));
        }
        for (const WorkPtr& work : works) {
          EXPECT_TRUE(work->wait());
        }
      },
      [&](NativeBackend& rank) {
        std::vector<int> got(6);
        for (const std::size_t i : {0U, 2U, 4U}) {  // before the long one, of another tag
          EXPECT_TRUE(rank.recv({Tensor(std::span(&got[i], 1))}, 0, 2)->wait());
        }
        std::vector<int> all(50'000);
        EXPECT_TRUE(rank.recv({Tensor(all)}, 0, 1)->wait());
        EXPECT_EQ(all, longOne);
        for (const std::size_t i : {1U, 3U, 5U}) {
          EXPECT_TRUE(rank.recv({Tensor(std::span(&got[i], 1))}, 0, 1)->wait());
        }
        EXPECT_EQ(got, values);
      });
}

TEST_F(PairTest, ManyMoreThanThePipeHoldsMayBeUnderWay) {
  constexpr int kMany = 5000;
  run(
      [](NativeBackend& rank) {
        std::vector<int> values = numbers(kMany, 0);
        std::vector<WorkPtr> works;
        for (int& value : values) {
          works.push_back(rank.send({Tensor(std::span(&value, 1))}, 1));
        }
        for (const WorkPtr& work : works) {
          EXPECT_TRUE(work->wait());
        }
      },
      [](NativeBackend& rank) {
        for (int i = 0; i < kMany; ++i) {
          int got = -1;
          rank.recv({Tensor(std::span(&got, 1))}, 0, 0, kNow)->wait();
          ASSERT_EQ(got, i);
        }
      });
}

// 4 MiB may be kept by the receiver; that and a few pipes full is what a sender gets rid of.
TEST_F(PairTest, ASenderWhoseMessagesNobodyAsksForIsHeldBack) {
  constexpr std::size_t kBytes = 8192;
  constexpr std::size_t kMany = 1500;  // 12 MB
  std::vector<std::uint8_t> other(1);
  const WorkPtr last = world[0].recv({Tensor(other)}, 1, 9);
  std::vector<std::vector<std::uint8_t>> out;
  std::vector<WorkPtr> sends;
  for (std::size_t i = 0; i < kMany; ++i) {
    out.emplace_back(i % 100 == 99 ? 0 : kBytes, static_cast<std::uint8_t>(i));
    sends.push_back(world[1].send({Tensor(out.back())}, 0, 5));
  }
  std::vector<std::uint8_t> mark(1);
  const WorkPtr marked = world[1].send({Tensor(mark)}, 0, 9);

  EXPECT_TRUE(last->wait(60s)) << "a message of another tag comes through";
  const auto sent = std::count_if(sends.begin(), sends.end(),
                                  [](const WorkPtr& each) { return each->isCompleted(); });
  EXPECT_GT(static_cast<std::size_t>(sent) * kBytes, 3'000'000U);
  EXPECT_LT(static_cast<std::size_t>(sent) * kBytes, 5'000'000U);

  for (std::size_t i = 0; i < kMany; ++i) {
    std::vector<std::uint8_t> in(out[i].size());
    ASSERT_TRUE(world[0].recv({Tensor(in)}, 1, 5, kNow)->wait());
    ASSERT_EQ(in, out[i]) << i;
  }
  for (const WorkPtr& each : sends) {
    EXPECT_TRUE(each->wait(60s));
  }
  EXPECT_TRUE(marked->wait(60s));
  EXPECT_TRUE(world[1].send({Tensor(mark)}, 0, 7, kNow)->wait())
      << "with nothing kept any more a short one goes at once again";
}

TEST_F(PairTest, WhatNobodyWaitsForArrivesAllTheSame) {
  std::vector<int> in(100'000);
  run(
      [](NativeBackend& rank) {
        std::vector<int> out = numbers(100'000, 5);
        std::promise<void> ended;
        rank.send({Tensor(out)}, 1)->addCallback([&] { ended.set_value(); });
        EXPECT_EQ(ended.get_future().wait_for(10s), std::future_status::ready);
      },
      [&](NativeBackend& rank) {
        std::promise<void> ended;
        rank.recv({Tensor(in)}, 0)->addCallback([&] { ended.set_value(); });
        EXPECT_EQ(ended.get_future().wait_for(10s), std::future_status::ready);
      });
  EXPECT_EQ(in, numbers(100'000, 5));
}

TEST_F(PairTest, ACallbackMaySendAndWait) {
  run(
      [](NativeBackend& rank) {
        int ping = 1;
        int pong = 0;
        rank.send({Tensor(std::span(&ping, 1))}, 1)->wait();
        rank.recv({Tensor(std::span(&pong, 1))}, 1)->wait();
        EXPECT_EQ(pong, 2);
      },
      [](NativeBackend& rank) {
        int ping = 0;
        std::promise<void> answered;
        rank.recv({Tensor(std::span(&ping, 1))}, 0)->addCallback([&] {
          int pong = ping + 1;
          EXPECT_TRUE(rank.send({Tensor(std::span(&pong, 1))}, 0)->wait(10s));
          answered.set_value();
        });
        EXPECT_EQ(answered.get_future().wait_for(10s), std::future_status::ready);
      });
}

TEST_F(PairTest, SeveralThreadsMayWait) {
  constexpr int kThreads = 4;
  run(
      [](NativeBackend& rank) {
        for (int turn = 0; turn < 50; ++turn) {
          for (int tag = kThreads - 1; tag >= 0; --tag) {
            std::vector<int> out(3000, tag);
            rank.send({Tensor(out)}, 1, tag, kNow)->wait();
          }
        }
      },
      [](NativeBackend& rank) {
        EXPECT_THAT(test::onThreads(kThreads,
                                    [&](int tag) {
                                      for (int turn = 0; turn < 50; ++turn) {
                                        std::vector<int> in(3000);
                                        rank.recv({Tensor(in)}, 0, tag, kNow)->wait();
                                        ASSERT_THAT(in, Each(tag));
                                      }
                                    }),
                    Each(nullptr));
      });
}

TEST_F(PairTest, OneThatWaitsAtOnceTakesNothingFromOneThatWaitsLonger) {
  run(
      [&](NativeBackend& rank) {
        for (int value = 0; value < 100; ++value) {
          EXPECT_TRUE(rank.send({Tensor(std::span(&value, 1))}, 1, 0, kNow)->wait());
        }
      },
      [&](NativeBackend& rank) {
        for (int turn = 0; turn < 50; ++turn) {
          int first = -1;
          int second = -1;
          const WorkPtr earlier = rank.recv({Tensor(std::span(&first, 1))}, 0);
          EXPECT_TRUE(rank.recv({Tensor(std::span(&second, 1))}, 0, 0, kNow)->wait());
          EXPECT_TRUE(earlier->wait());
          EXPECT_EQ(first, 2 * turn);
          EXPECT_EQ(second, 2 * turn + 1);
        }
      });
}

TEST_F(PairTest, AnotherLengthIsNamedToBoth) {
  for (const std::size_t count : {5U, 50'000U}) {
    NativeWorld fresh(2);
    const auto thrown = fresh.outcomes([&](NativeBackend& rank) {
      std::vector<int> out(count);
      std::vector<int> in(count + 1);
      (rank.rank() == 0 ? rank.send({Tensor(out)}, 1, 4) : rank.recv({Tensor(in)}, 0, 4))->wait();
      int next = 0;  // a short send may have ended before anybody looked at its length
      rank.recv({Tensor(std::span(&next, 1))}, 1 - rank.rank(), 9, kNow)->wait();
    });
    const std::string text =
        str("rank 0 sends ", count * 4, " bytes with tag 4, but rank 1 receives ", (count + 1) * 4);
    EXPECT_THAT(textOfThrown(thrown[0]), HasSubstr(text));
    EXPECT_THAT(textOfThrown(thrown[1]), AllOf(HasSubstr("[MISMATCH]"), HasSubstr(text)));
  }
}

TEST_F(PairTest, ATimeoutSaysWhatWasWaitedFor) {
  int value = 0;
  NativeBackend& rank = world[1];
  const std::string text = textOf<DistTimeoutError>([&] {
    rank.recv({Tensor(std::span(&value, 1))}, 0, 5, {.timeout = 30ms, .asyncOp = false})->wait();
  });
  EXPECT_THAT(text, AllOf(HasSubstr("Timed out waiting 30ms"),
                          HasSubstr("rank 1 waits for 4 bytes with tag 5 from rank 0")));
  EXPECT_EQ(reasonOf<DistError>([&] { world[0].barrier({.asyncOp = false})->wait(); }),
            Reason::TIMEOUT)
      << "the group has ended for all";
}

TEST_F(PairTest, AWaitMayEndBeforeTheMessage) {
  int value = 0;
  const WorkPtr work = world[1].recv({Tensor(std::span(&value, 1))}, 0);
  EXPECT_THROW(work->wait(10ms), DistTimeoutError);
  int sent = 9;
  world[0].send({Tensor(std::span(&sent, 1))}, 1)->wait();
  EXPECT_TRUE(work->wait(10s));
  EXPECT_EQ(value, 9);
}

TEST_F(PairTest, AWaitThatLastsSaysOnceWhatForAndHowLong) {
  const test::ScopedEnv soon("UNISONO_HANG_WARN", "0.03");
  const test::LogCapture log;
  const auto notices = [&] {
    const std::vector<std::string> lines = log.lines();
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find(
                 "recv of group 'g': rank 1 waits for 4 bytes with tag 5 from rank 0 "
                 "(process ") != std::string::npos &&
             line.find("giving up in ") != std::string::npos;
    });
  };
  int value = 0;
  const WorkPtr work = world[1].recv({Tensor(std::span(&value, 1))}, 0, 5);
  test::BlockedCall waiting([&] { return work->wait(); });
  EXPECT_TRUE(test::eventually([&] { return notices() > 0; }));
  EXPECT_TRUE(waiting.staysBlocked(100ms));
  EXPECT_EQ(notices(), 1);

  int sent = 9;
  world[0].send({Tensor(std::span(&sent, 1))}, 1, 5)->wait();
  EXPECT_TRUE(waiting.result());
}

TEST_F(PairTest, WhatWasSentOutlivesItsSender) {
  int sent = 9;
  world[0].send({Tensor(std::span(&sent, 1))}, 1, 1, kNow)->wait();
  world.drop(0);
  int value = 0;
  EXPECT_TRUE(world[1].recv({Tensor(std::span(&value, 1))}, 0, 1, kNow)->wait());
  EXPECT_EQ(value, 9);
  EXPECT_THAT(textOf<DistBackendError>(
                  [&] { world[1].recv({Tensor(std::span(&value, 1))}, 0, 1, kNow)->wait(); }),
              AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("rank 0 has left the group, but rank 1")));
}

TEST(MailOfOthersTest, GoesOnWhenAnyOtherRankHasLeft) {
  for (const int gone : {0, 1, 2}) {
    NativeWorld world(3);
    const int from = gone == 0 ? 1 : 0;
    const int to = gone == 2 ? 1 : 2;
    world.drop(gone);
    // The first messages of the group: short ones, and one that is offered.
    for (const std::size_t count : {1U, 300'000U}) {
      std::vector<int> sent = numbers(count, gone);
      std::vector<int> got(count);
      const WorkPtr sending = world[from].send(Tensor(sent), to);
      EXPECT_TRUE(world[to].recv(Tensor(got), from)->wait());
      EXPECT_TRUE(sending->wait());
      EXPECT_EQ(got, sent);
    }

    EXPECT_THAT(textOf<DistBackendError>([&] {
                  int value = 0;
                  world[from].recv(Tensor(std::span(&value, 1)), gone, 0, kNow)->wait();
                }),
                AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr(str("culprits=[", gone, "]"))));
  }
}

TEST(MailOfOthersTest, TheFirstMessageToARankThatHasLeftNamesIt) {
  NativeWorld world(3);
  world.drop(2);
  int value = 0;

  EXPECT_THAT(textOf<DistBackendError>(
                  [&] { world[1].send(Tensor(std::span(&value, 1)), 2, 0, kNow)->wait(); }),
              AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[2]"), HasSubstr("rank 2"),
                    HasSubstr("has left the group")));
}

TEST_F(PairTest, AbortEndsWhatIsUnderWay) {
  int value = 0;
  const WorkPtr work = world[1].recv({Tensor(std::span(&value, 1))}, 0);
  world[0].abort(nullptr);
  EXPECT_EQ(reasonOf<DistBackendError>([&] { work->wait(10s); }), Reason::ABORTED);
}

// Who unwinds because of the second call takes the data of the first along.
TEST_F(PairTest, ACallThatIsRefusedLeavesNoOtherMessageUnderWay) {
  std::vector<int> data = numbers(300'000, 0);
  const WorkPtr sending = world[0].send(Tensor(data), 1);
  world[1].abort(nullptr);
  // By TCP the word takes a moment.
  ASSERT_TRUE(test::eventually([&] { return world[0].error() != ErrorType::SUCCESS; }));
  EXPECT_THROW(world[0].recv(Tensor(data), 1), DistBackendError);
  EXPECT_TRUE(sending->isCompleted());
}

TEST_F(PairTest, ACollectiveThatFailsLeavesNoMessageUnderWay) {
  for (const bool asyncOp : {false, true}) {
    NativeWorld pair(2);
    std::vector<int> data(3);
    const WorkPtr receiving = pair[0].recv(Tensor(data), 1);
    const WorkPtr barrier = asyncOp ? pair[0].barrier() : nullptr;
    pair[1].abort(nullptr);
    ASSERT_TRUE(test::eventually([&] { return pair[0].error() != ErrorType::SUCCESS; }));
    EXPECT_THROW((asyncOp ? barrier : pair[0].barrier({.asyncOp = false}))->wait(),
                 DistBackendError);
    EXPECT_TRUE(receiving->isCompleted());
  }
}

TEST_F(PairTest, ShutdownSendsWhatWasPosted) {
  std::vector<int> out = numbers(100'000, 1);
  std::vector<int> in(100'000);
  run(
      [&](NativeBackend& rank) {
        const WorkPtr sending = rank.send({Tensor(out)}, 1);
        rank.shutdown();
        EXPECT_TRUE(sending->wait());
      },
      [&](NativeBackend& rank) { EXPECT_TRUE(rank.recv({Tensor(in)}, 0)->wait()); });
  EXPECT_EQ(in, out);
}

TEST(LooksTest, AreMoreWhileALongMessageIsOnItsWay) {
  EXPECT_EQ(looksFor(2000, 4), 2000);
  EXPECT_GT(looksFor(2000, 1U << 20U), 4000);
  EXPECT_LT(looksFor(2000, std::size_t{1} << 40U), 100'000) << "then it sleeps all the same";
  EXPECT_EQ(looksFor(0, 1U << 20U), 0) << "it was told not to spin";
}

}  // namespace
}  // namespace unisono
