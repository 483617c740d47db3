// What every store promises when signals arrive, a process forks, or the store is destroyed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <gmock/gmock.h>
#include <stdexcept>
#include <thread>

#include "unisono/base/error.hpp"
#include "unisono/store/hash_store.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/blocked_call.hpp"
#include "support/bounds.hpp"
#include "support/store_kinds.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::BlockedCall;
using test::EndsInTime;
using test::reasonOf;
using test::storeKinds;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

using StoreLifeTest = test::StoreTest;
INSTANTIATE_TEST_SUITE_P(AllStores, StoreLifeTest, ::testing::ValuesIn(storeKinds()),
                         test::kindName);

/// Sends SIGUSR1, for which there is a handler without SA_RESTART, to a thread all the time.
class SignalStorm {
 public:
  explicit SignalStorm(pthread_t target) {
    struct sigaction action {};
    action.sa_handler = [](int) { caught.fetch_add(1); };
    ::sigaction(SIGUSR1, &action, &before_);
    sender_ = std::thread([this, target] {
      while (!stop_.load()) {
        ::pthread_kill(target, SIGUSR1);
        const timespec millisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
        ::nanosleep(&millisecond, nullptr);
      }
    });
  }
  ~SignalStorm() {
    stop_.store(true);
    sender_.join();
    ::sigaction(SIGUSR1, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

  static inline std::atomic<int> caught{0};

 private:
  struct sigaction before_ {};
  std::atomic<bool> stop_{false};
  std::thread sender_;
};

TEST_P(StoreLifeTest, SignalsNeitherEndNorLengthenAWait) {
  const SignalStorm storm(::pthread_self());
  const int before = SignalStorm::caught.load();
  {
    const EndsInTime bound(300ms);
    EXPECT_EQ(reasonOf([&] { store.wait({"k"}, 300ms); }), Reason::TIMEOUT);
  }
  {
    const EndsInTime bound(300ms);
    EXPECT_EQ(reasonOf([&] { store.barrier("b", 2, 300ms); }), Reason::TIMEOUT);
  }

  // One in every millisecond, where the sender gets a processor that often.
  EXPECT_GT(SignalStorm::caught.load() - before, 0) << "no signal arrived";
}

TEST_P(StoreLifeTest, SignalsDoNotDisturbWork) {
  const SignalStorm storm(::pthread_self());
  const std::string large(200'000, 'x');
  for (int i = 0; i < 100; ++i) {
    store.set("k", large + str(i));
    ASSERT_EQ(store.getString("k").substr(large.size()), str(i));
    ASSERT_EQ(store.add("n", 1), i + 1);
  }
}

/// What the interrupt hook throws, as the Python binding does for Ctrl-C.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};
thread_local bool toBeInterrupted = false;

/// Lets a thread that has set `toBeInterrupted` be interrupted in its next wait, once.
class InterruptHookForTest {
 public:
  InterruptHookForTest() {
    setInterruptHook([] {
      if (std::exchange(toBeInterrupted, false)) {
        throw Interrupted();
      }
    });
  }
  ~InterruptHookForTest() { setInterruptHook(nullptr); }
  InterruptHookForTest(const InterruptHookForTest&) = delete;
  InterruptHookForTest& operator=(const InterruptHookForTest&) = delete;
};

TEST_P(StoreLifeTest, AnInterruptedWaitLeavesTheStoreAsItWas) {
  const InterruptHookForTest hook;
  const auto interrupted = [](const std::function<void()>& call) {
    toBeInterrupted = true;
    EXPECT_THROW(call(), Interrupted);
  };
  const std::vector<std::string> keys = {"k", "l"};

  store.set("before", "0");
  interrupted([&] { store.get("k"); });
  interrupted([&] { store.wait(keys); });
  interrupted([&] { store.multiGet(keys); });
  interrupted([&] { store.barrier("b", 2, 20s); });
  if (kind().hasQueues) {
    interrupted([&] { store.queuePop("q"); });
  }

  for (int i = 0; i < 3; ++i) {
    store.set("k", str("v", i));
    EXPECT_EQ(store.add("n", 7), 7 * (i + 1));
    EXPECT_EQ(store.getString("k"), str("v", i));
    EXPECT_FALSE(store.check({"l"}));
  }
  if (kind().hasQueues) {
    store.queuePush("q", "element");
    EXPECT_EQ(asText(store.queuePop("q")), "element") << "one who was interrupted takes nothing";
  }
}

TEST_P(StoreLifeTest, DestroyingItEndsTheCallsInside) {
  Store* raw = made.store.get();
  std::vector<std::function<void()>> calls = {
      [raw] { raw->get("k"); },
      [raw] {
        raw->wait({"k", "l"});
      },
      [raw] { raw->multiGet(std::vector<std::string>{"k"}); },
      [raw] { raw->barrier("b", 100); },
  };
  if (kind().hasQueues) {
    calls.push_back([raw] { raw->queuePop("q"); });
  }
  std::vector<std::unique_ptr<BlockedCall<std::function<void()>>>> blocked;
  for (const std::function<void()>& call : calls) {
    blocked.push_back(std::make_unique<BlockedCall<std::function<void()>>>(call));
  }
  const auto start = std::chrono::steady_clock::now();

  made.store.reset();

  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  for (const auto& call : blocked) {
    EXPECT_THAT(textOf([&] { call->result(); }),
                AllOf(HasSubstr("being destroyed"), HasSubstr("[SHUTDOWN]")));
  }
}

TEST_P(StoreLifeTest, AForkedChildIsRefusedAndTheParentGoesOn) {
  store.set("k", "v");

  const int status = test::runInChild([&] {
    const std::vector<std::string> keys = {"k"};
    std::vector<std::function<void()>> calls = {
        [&] { store.set("k", "child"); },
        [&] { store.get("k"); },
        [&] { store.add("n", 1); },
        [&] { store.append("k", "child"); },
        [&] { store.compareSet("k", "v", "child"); },
        [&] { store.check({"k"}); },
        [&] { store.wait({"k"}); },
        [&] { store.multiGet(keys); },
        [&] { store.multiSet(keys, std::vector<Bytes>(1)); },
        [&] { store.deleteKey("k"); },
        [&] { store.deletePrefix("k"); },
        [&] { store.numKeys(); },
        [&] { store.listKeys(); },
        [&] { store.barrier("b", 1); },
    };
    if (kind().hasQueues) {
      calls.emplace_back([&] { store.queuePush("q", "child"); });
      calls.emplace_back([&] { store.queuePop("q", false); });
      calls.emplace_back([&] { store.queueLen("q"); });
    }
    const bool all = std::all_of(calls.begin(), calls.end(), [](const auto& call) {
      return reasonOf<UsageError>(call) == Reason::FORKED;
    });
    made.store.reset();  // in the child this touches nothing
    HashStore own;
    own.set("k", "a child may make its own");
    return all && own.numKeys() == 1;
  });

  EXPECT_EQ(status, 0);
  EXPECT_EQ(store.getString("k"), "v");
  EXPECT_EQ(store.add("n", 1), 1);
  EXPECT_EQ(store.clone()->getString("k"), "v");
}

TEST_P(StoreLifeTest, AForkDuringAWaitDisturbsNeither) {
  BlockedCall getting([&] { return store.getString("k"); });

  const int status = test::runInChild(
      [&] { return reasonOf<UsageError>([&] { store.get("k"); }) == Reason::FORKED; });

  EXPECT_EQ(status, 0);
  EXPECT_TRUE(getting.staysBlocked());
  store.set("k", "v");
  EXPECT_EQ(getting.result(), "v");
}

}  // namespace
}  // namespace unisono
