// The checker itself is checked: it rejects every store that has a fault, and none that has not.
#include "linear/wrong_store.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <map>

#include "unisono/store/hash_store.hpp"

#include "linear/checker.hpp"
#include "linear/workload.hpp"
#include "support/effort.hpp"

namespace unisono::linear {
namespace {

constexpr int kFaults = static_cast<int>(Fault::LIST_WITH_DELETED);

/// Several clients that call one after the other, by chance.
History play(Store& store, std::uint64_t seed, int calls) {
  std::int64_t time = 0;
  std::vector<Workload> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(WorkloadOptions{
        .client = i, .seed = seed + static_cast<std::uint64_t>(i), .keys = 4, .clock = [&] {
          return ++time;
        }});
  }
  store.setTimeout(std::chrono::milliseconds(0));
  SeededRng rng(seed);
  for (int i = 0; i < calls; ++i) {
    clients[rng.next() % clients.size()].oneCall(store);
  }
  History history;
  for (Workload& client : clients) {
    History more = client.take();
    history.insert(history.end(), more.begin(), more.end());
  }
  return history;
}

/// The same answers, from calls that took longer: none longer than until the next of its client.
History widen(History history, std::int64_t most) {
  SeededRng rng(7);
  const auto some = [&] { return static_cast<std::int64_t>(rng.next()) & (most - 1); };
  std::map<int, std::int64_t> ends;  // of the calls before, by client
  std::sort(history.begin(), history.end(),
            [](const Event& a, const Event& b) { return a.start < b.start; });
  for (Event& event : history) {
    event.start = std::max(event.start - some(), ends[event.client] + 1);
    if (event.known) {
      ends[event.client] = event.end;
    }
  }
  std::map<int, std::int64_t> starts;  // of the calls after
  for (auto event = history.rbegin(); event != history.rend(); ++event) {
    const auto next = starts.find(event->client);
    if (event->known) {
      event->end = std::max(event->end, std::min(event->end + some(),
                                                 next == starts.end() ? kNever : next->second - 1));
    }
    starts[event->client] = event->start;
  }
  return history;
}

class WrongStoreTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Faults, WrongStoreTest, ::testing::Range(1, kFaults + 1));

TEST_P(WrongStoreTest, IsFoundOut) {
  const auto right = std::make_shared<HashStore>();
  right->setTimeout(std::chrono::milliseconds(0));
  WrongStore store(right, static_cast<Fault>(GetParam()));

  const Verdict verdict = check(play(store, 20261116, 1500));

  EXPECT_EQ(verdict.kind, Verdict::Kind::WRONG);
}

TEST_P(WrongStoreTest, IsFoundOutAmongCallsThatOverlap) {
  const auto right = std::make_shared<HashStore>();
  right->setTimeout(std::chrono::milliseconds(0));
  WrongStore store(right, static_cast<Fault>(GetParam()));

  const Verdict verdict = check(widen(play(store, 20261116, 1500), 8), 2'000'000);

  EXPECT_EQ(verdict.kind, Verdict::Kind::WRONG);
}

TEST(RightStoreTest, IsNotAccusedForCallsThatOverlap) {
  for (std::uint64_t seed = 1; seed <= test::effort(20U, 5U); ++seed) {
    const auto right = std::make_shared<HashStore>();
    right->setTimeout(std::chrono::milliseconds(0));
    WrongStore store(right, Fault::NONE);

    const Verdict verdict = check(widen(play(store, seed, 1500), 32));

    EXPECT_TRUE(verdict.isFine()) << "seed " << seed << ": " << verdict.why;
  }
}

TEST(RightStoreTest, IsNotAccused) {
  for (std::uint64_t seed = 1; seed <= test::effort(20U, 5U); ++seed) {
    const auto right = std::make_shared<HashStore>();
    right->setTimeout(std::chrono::milliseconds(0));
    WrongStore store(right, Fault::NONE);

    const Verdict verdict = check(play(store, seed, 1500));

    EXPECT_TRUE(verdict.isFine()) << "seed " << seed << ": " << verdict.why;
  }
}

}  // namespace
}  // namespace unisono::linear
