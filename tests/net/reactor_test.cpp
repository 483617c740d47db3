#include "net/reactor.hpp"

#include <array>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "base/thread.hpp"
#include "net/net_support.hpp"
#include "net/reactor_fixture.hpp"

namespace unisono {
namespace {

using test::Does;
using test::kindName;
using test::kReactorKinds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What reactors promise about descriptors.
class ReactorTest : public test::ReactorFixture {};

TEST_P(ReactorTest, ReportsWhatCanBeRead) {
  auto pair = test::socketPair();
  std::string got;
  Does watcher([&](bool readable, bool writable) {
    EXPECT_TRUE(readable);
    EXPECT_FALSE(writable);
    std::array<char, 16> data{};
    const IoResult some = pair.near.recvSome(data.data(), data.size(), Deadline::after({}));
    got.append(data.data(), some.bytes);
    loop_.stop();
  });
  watch(pair.near.fd(), {.read = true}, watcher);
  ASSERT_TRUE(pair.far.sendAll("hello", test::soon()).isDone());

  loop_.run();

  EXPECT_EQ(got, "hello");
}

TEST_P(ReactorTest, ReportsAgainWhatWasLeftUnread) {
  auto pair = test::socketPair();
  int calls = 0;
  Does watcher([&](bool, bool) {
    if (++calls == 3) {
      loop_.stop();
    }
  });
  watch(pair.near.fd(), {.read = true}, watcher);
  ASSERT_TRUE(pair.far.sendAll("x", test::soon()).isDone());

  loop_.run();

  EXPECT_GE(calls, 3);
}

TEST_P(ReactorTest, ReportsWhatCanBeWrittenOnlyWhenAsked) {
  auto pair = test::socketPair();
  std::vector<std::pair<bool, bool>> calls;
  Does watcher([&](bool readable, bool writable) {
    calls.emplace_back(readable, writable);
    change(pair.near.fd(), {.read = true});
    stopAfter(3);
  });
  watch(pair.near.fd(), {.read = true, .write = true}, watcher);

  loop_.run();

  EXPECT_THAT(calls, ElementsAre(std::pair(false, true)));
}

TEST_P(ReactorTest, IsSilentAboutADescriptorThatNothingIsAskedOf) {
  auto pair = test::socketPair();
  int calls = 0;
  Does watcher([&](bool, bool) { ++calls; });
  watch(pair.near.fd(), {}, watcher);
  pair.far = Socket();
  stopAfter(3);

  loop_.run();

  EXPECT_EQ(calls, 0);
}

TEST_P(ReactorTest, ReportsAgainOnceInterestReturns) {
  auto pair = test::socketPair();
  int calls = 0;
  Does watcher([&](bool, bool) {
    ++calls;
    loop_.stop();
  });
  watch(pair.near.fd(), {.read = true}, watcher);
  change(pair.near.fd(), {});
  change(pair.near.fd(), {});
  ASSERT_TRUE(pair.far.sendAll("x", test::soon()).isDone());
  loop_.post([&] {
    loop_.post([&] {
      EXPECT_EQ(calls, 0);
      change(pair.near.fd(), {.read = true});
    });
  });

  loop_.run();

  EXPECT_GE(calls, 1);
}

TEST_P(ReactorTest, ReportsAHangUpAsReadable) {
  auto pair = test::socketPair();
  int calls = 0;
  Does watcher([&](bool readable, bool) {
    EXPECT_TRUE(readable);
    ++calls;
    unwatch(pair.near.fd());
    loop_.stop();
  });
  watch(pair.near.fd(), {.read = true}, watcher);
  pair.far = Socket();

  loop_.run();

  EXPECT_EQ(calls, 1);
}

TEST_P(ReactorTest, ReportsAnErrorAsAllThatWasAskedForUntilItIsUnwatched) {
  const Interest interests[] = {{.read = true}, {.write = true}, {.read = true, .write = true}};
  for (const Interest interest : interests) {
    auto reactor = GetParam().make();
    reactor->role.assertHeld();
    const Listener listener = test::listenOn("127.0.0.1");
    Socket client = connectTo("127.0.0.1", listener.port(), test::soon(), Milliseconds(0));
    AcceptResult accepted = acceptOne(listener.fds().front());
    ASSERT_EQ(accepted.status, AcceptStatus::GOT);
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(accepted.fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    accepted.fd.reset();  // a reset, not an orderly end
    int calls = 0;
    Does watcher([&](bool readable, bool writable) {
      EXPECT_EQ(readable, interest.read);
      EXPECT_EQ(writable, interest.write);
      if (++calls == 3) {
        reactor->role.assertHeld();
        reactor->unwatch(client.fd());
        reactor->stop();
      }
    });
    ASSERT_TRUE(reactor->watch(client.fd(), interest, watcher).isOk());

    reactor->run();

    EXPECT_EQ(calls, 3);
  }
}

TEST_P(ReactorTest, NeverCallsAWatcherAfterUnwatch) {
  // Both are ready in the same turn; whoever is called first silences the other for good.
  auto [a, farA] = test::socketPair();
  auto [b, farB] = test::socketPair();
  std::vector<std::unique_ptr<Does>> watchers(2);
  int calls = 0;
  Socket* sockets[] = {&a, &b};
  for (std::size_t i = 0; i < 2; ++i) {
    watchers[i] = std::make_unique<Does>([&, i](bool, bool) {
      ++calls;
      unwatch(sockets[1 - i]->fd());
      *sockets[1 - i] = Socket();
      watchers[1 - i].reset();
      stopAfter(3);
      unwatch(sockets[i]->fd());
    });
    watch(sockets[i]->fd(), {.read = true}, *watchers[i]);
  }
  ASSERT_TRUE(farA.sendAll("x", test::soon()).isDone());
  ASSERT_TRUE(farB.sendAll("x", test::soon()).isDone());

  loop_.run();

  EXPECT_EQ(calls, 1);
}

TEST_P(ReactorTest, DoesNotMixUpDescriptorsWithTheSameNumber) {
  auto [a, farA] = test::socketPair();
  auto [b, farB] = test::socketPair();
  int calls = 0;
  int wrong = 0;
  test::SocketPair fresh;
  Does newcomer([&](bool, bool) { ++wrong; });
  Socket* sockets[] = {&a, &b};
  std::vector<std::unique_ptr<Does>> watchers;
  for (std::size_t i = 0; i < 2; ++i) {
    watchers.push_back(std::make_unique<Does>([&, i](bool, bool) {
      if (++calls > 1) {
        return;
      }
      // The other one's number goes to a socket that has nothing to read.
      const int number = sockets[1 - i]->fd();
      unwatch(number);
      *sockets[1 - i] = Socket();
      fresh = test::socketPair();
      ASSERT_EQ(fresh.near.fd(), number);
      watch(number, {.read = true}, newcomer);
      unwatch(sockets[i]->fd());
      stopAfter(3);
    }));
    watch(sockets[i]->fd(), {.read = true}, *watchers[i]);
  }
  ASSERT_TRUE(farA.sendAll("x", test::soon()).isDone());
  ASSERT_TRUE(farB.sendAll("x", test::soon()).isDone());

  loop_.run();

  EXPECT_EQ(calls, 1);
  EXPECT_EQ(wrong, 0);
}

TEST_P(ReactorTest, CanWatchAgainWhatItUnwatched) {
  auto pair = test::socketPair();
  int calls = 0;
  Does watcher([&](bool, bool) {
    unwatch(pair.near.fd());
    if (++calls < 3) {
      watch(pair.near.fd(), {.write = true}, watcher);
    } else {
      loop_.stop();
    }
  });
  watch(pair.near.fd(), {.write = true}, watcher);

  loop_.run();

  EXPECT_EQ(calls, 3);
}

TEST_P(ReactorTest, RefusesWhatItCannotWatch) {
  auto pair = test::socketPair();
  Does watcher([](bool, bool) {});
  watch(pair.near.fd(), {.read = true}, watcher);

  EXPECT_THAT(tryWatch(pair.near.fd(), {.read = true}, watcher).text(), HasSubstr("already"));
  EXPECT_THAT(tryWatch(9999, {.read = true}, watcher).text(), HasSubstr("EBADF"));
  EXPECT_THAT(tryWatch(-1, {.read = true}, watcher).text(), HasSubstr("EBADF"));
  unwatch(9999);
  unwatch(-1);
}

TEST_P(ReactorTest, ServesThousandsOfDescriptors) {
  raiseDescriptorLimit();
  constexpr std::size_t kPairs = 2000;
  std::vector<test::SocketPair> pairs;
  std::vector<std::unique_ptr<Does>> watchers;
  std::vector<int> calls(kPairs, 0);
  std::size_t left = kPairs;
  for (std::size_t i = 0; i < kPairs; ++i) {
    pairs.push_back(test::socketPair());
    watchers.push_back(std::make_unique<Does>([&, i](bool, bool) {
      ++calls[i];
      unwatch(pairs[i].near.fd());
      if (--left == 0) {
        loop_.stop();
      }
    }));
    watch(pairs[i].near.fd(), {.read = true}, *watchers.back());
  }
  const Thread sender("sender", [&] {
    for (auto& pair : pairs) {
      ASSERT_TRUE(pair.far.sendAll("x", test::soon()).isDone());
    }
  });

  loop_.run();

  EXPECT_THAT(calls, ::testing::Each(1));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReactorTest, ::testing::ValuesIn(kReactorKinds), kindName);

}  // namespace
}  // namespace unisono
