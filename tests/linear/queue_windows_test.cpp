#include "linear/queue_windows.hpp"

#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <utility>

#include "base/random.hpp"
#include "base/str.hpp"
#include "linear/checker.hpp"
#include "linear/model.hpp"
#include "support/effort.hpp"

namespace unisono::linear {
namespace {

using ::testing::ElementsAre;

Event call(Op op, int client, std::int64_t start, std::int64_t end) {
  Event event;
  event.client = client;
  event.op = op;
  event.keys = {"q"};
  event.known = true;
  event.start = start;
  event.end = end;
  return event;
}
Event push(const std::string& element, int client, std::int64_t start, std::int64_t end) {
  Event event = call(Op::PUSH, client, start, end);
  event.values = {element};
  return event;
}
Event pop(const std::string& element, int client, std::int64_t start, std::int64_t end) {
  Event event = call(Op::POP, client, start, end);
  event.texts = {element};
  return event;
}
Event unanswered(Event event) {
  event.known = false;
  event.texts.clear();
  event.end = kNever;
  return event;
}

using Window = std::pair<std::int64_t, std::int64_t>;

std::vector<Window> windows(const History& history, Guess guess = Guess::NOTHING) {
  std::vector<const Event*> events;
  std::transform(history.begin(), history.end(), std::back_inserter(events),
                 [](const Event& event) { return &event; });
  std::vector<Window> all;
  for (const Event& event : narrowed(events, guess)) {
    all.emplace_back(event.start, event.end);
  }
  return all;
}

TEST(QueueWindowsTest, WhatCameOutFirstWentInFirst) {
  EXPECT_THAT(windows({push("a", 1, 0, 90), push("b", 2, 10, 50), pop("a", 3, 100, 101),
                       pop("b", 3, 102, 103)}),
              ElementsAre(Window(0, 50), Window(10, 50), Window(100, 101), Window(102, 103)));
}

TEST(QueueWindowsTest, WhatWentInFirstCameOutFirst) {
  EXPECT_THAT(
      windows({push("a", 1, 0, 1), push("b", 1, 2, 3), pop("a", 2, 4, 9), pop("b", 3, 4, 6)}),
      ElementsAre(Window(0, 1), Window(2, 3), Window(4, 6), Window(4, 6)));
}

TEST(QueueWindowsTest, APushWithoutAnAnswerHasHappenedWhenItsElementIsOut) {
  EXPECT_THAT(windows({unanswered(push("a", 1, 0, 1)), pop("a", 2, 4, 9)}),
              ElementsAre(Window(0, 9), Window(4, 9)));
}

TEST(QueueWindowsTest, CallsOfOneClientKeepTheirOrder) {
  EXPECT_THAT(
      windows({push("a", 1, 0, 50), push("b", 1, 1, 50), push("c", 2, 2, 20), pop("b", 3, 100, 101),
               pop("c", 3, 102, 103)}),
      ElementsAre(Window(0, 20), Window(1, 20), Window(2, 20), Window(100, 101), Window(102, 103)));
}

TEST(QueueWindowsTest, AGuessLetsAPopWithoutAnAnswerTakeWhatMustBeGone) {
  const History history = {push("a", 1, 0, 1), push("b", 1, 2, 3), unanswered(pop("", 2, 4, 5)),
                           pop("b", 3, 6, 7)};
  EXPECT_THAT(windows(history, Guess::LOST),
              ElementsAre(Window(0, 1), Window(2, 3), Window(4, 7), Window(6, 7)));
  EXPECT_EQ(windows(history)[2], Window(4, kNever));
}

/// Clients of a queue that does one thing at a time, each call at some moment between its start and
/// its end; of some nobody is told whether they happened.
History play(std::uint64_t seed, int clients, int calls) {
  SeededRng rng(seed);
  const auto below = [&](std::uint64_t limit) {
    return static_cast<std::int64_t>(rng.next() % limit);
  };
  std::vector<std::pair<std::int64_t, Event>> moments;
  for (int client = 0; client < clients; ++client) {
    std::int64_t time = 0;
    for (int i = 0; i < calls; ++i) {
      const std::array kOps = {Op::PUSH, Op::POP, Op::LENGTH};
      // More goes in than out at first, so that mistakes show late.
      const bool isPush = i < 3;
      Event event = call(isPush ? Op::PUSH : kOps[static_cast<std::size_t>(below(3))], client,
                         time + 1 + below(40), 0);
      const std::int64_t moment = event.start + below(40);
      time = event.end = moment + below(40);
      if (event.op == Op::PUSH) {
        event.values = {str("<", client, ".", i, ">")};
      }
      moments.emplace_back(moment, event);
    }
  }
  std::stable_sort(moments.begin(), moments.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  State state;
  History history;
  for (auto& [moment, event] : moments) {
    const auto queue = state.queues.find("q");
    const std::size_t length = queue == state.queues.end() ? 0 : queue->second.size();
    const bool isLost = below(100) == 0;
    if (event.op == Op::LENGTH) {
      event.result = static_cast<std::int64_t>(length);
    } else if (event.op == Op::POP && length > 0) {
      event.texts = {queue->second.front()};
    }
    if (!isLost || below(2) == 0) {
      EXPECT_TRUE(step(state, event));
    }
    history.push_back(isLost ? unanswered(event) : event);
  }
  return history;
}

TEST(QueueWindowsTest, LongHistoriesWithCallsThatNobodyKnowsAreDecided) {
  constexpr std::size_t kMostSteps = 1'000'000;
  for (std::uint64_t seed = 1; seed <= test::effort(5U, 2U); ++seed) {
    const Verdict verdict = check(play(seed, 16, 80), kMostSteps);
    EXPECT_TRUE(verdict.isFine()) << "seed " << seed << ": " << verdict.why;
  }
}

}  // namespace
}  // namespace unisono::linear
