#include "linear/checker.hpp"

#include <gmock/gmock.h>

namespace unisono::linear {
namespace {

using ::testing::HasSubstr;

/// A call that was answered, by client 0 unless said otherwise.
Event call(Op op, std::vector<std::string> keys, std::int64_t start, std::int64_t end) {
  Event event;
  event.op = op;
  event.keys = std::move(keys);
  event.known = true;
  event.start = start;
  event.end = end;
  return event;
}
Event set(const std::string& key, const std::string& value, std::int64_t start, std::int64_t end) {
  Event event = call(Op::SET, {key}, start, end);
  event.values = {value};
  return event;
}
Event got(const std::string& key, const std::string& value, std::int64_t start, std::int64_t end) {
  Event event = call(Op::GET, {key}, start, end);
  event.texts = {value};
  return event;
}
Event added(const std::string& key, std::int64_t delta, std::int64_t sum, std::int64_t start,
            std::int64_t end) {
  Event event = call(Op::ADD, {key}, start, end);
  event.number = delta;
  event.result = sum;
  return event;
}
Event unanswered(Event event) {
  event.known = false;
  event.end = kNever;
  return event;
}

TEST(LinearCheckerTest, AcceptsWhatHappenedOneAfterTheOther) {
  EXPECT_TRUE(
      check({set("k", "a", 0, 1), got("k", "a", 2, 3), set("k", "b", 4, 5), got("k", "b", 6, 7)})
          .isFine());
  EXPECT_TRUE(check({}).isFine());
}

TEST(LinearCheckerTest, RejectsAnOldValueAfterANewOneWasSet) {
  const Verdict verdict = check({set("k", "a", 0, 1), set("k", "b", 2, 3), got("k", "a", 4, 5)});

  EXPECT_EQ(verdict.kind, Verdict::Kind::WRONG);
  EXPECT_THAT(verdict.why, HasSubstr("get(k) = a [4, 5]"));
}

TEST(LinearCheckerTest, AcceptsEitherOrderOfCallsThatOverlap) {
  for (const char* last : {"a", "b"}) {
    EXPECT_TRUE(check({set("k", "a", 0, 5), set("k", "b", 0, 5), got("k", last, 6, 7)}).isFine());
  }
}

TEST(LinearCheckerTest, RejectsTwoReadersWhoSawDifferentOrders) {
  EXPECT_FALSE(check({set("k", "a", 0, 9), set("k", "b", 0, 9), got("k", "a", 1, 2),
                      got("k", "b", 3, 4), got("k", "a", 5, 6)})
                   .isFine());
}

TEST(LinearCheckerTest, RejectsALostUpdate) {
  EXPECT_FALSE(check({added("n", 1, 1, 0, 5), added("n", 1, 1, 0, 5)}).isFine());
  EXPECT_TRUE(check({added("n", 1, 1, 0, 5), added("n", 1, 2, 0, 5)}).isFine());
}

TEST(LinearCheckerTest, ACallWithoutAnAnswerMayHaveHappenedOrNot) {
  const Event lost = unanswered(set("k", "b", 2, 3));
  EXPECT_TRUE(check({set("k", "a", 0, 1), lost, got("k", "a", 4, 5)}).isFine());
  EXPECT_TRUE(check({set("k", "a", 0, 1), lost, got("k", "b", 4, 5)}).isFine());
  EXPECT_TRUE(
      check({set("k", "a", 0, 1), lost, got("k", "a", 4, 5), got("k", "b", 6, 7)}).isFine());
  EXPECT_FALSE(
      check({set("k", "a", 0, 1), lost, got("k", "b", 4, 5), got("k", "a", 6, 7)}).isFine());
}

TEST(LinearCheckerTest, ACallWithoutAnAnswerDidNotHappenBeforeItBegan) {
  EXPECT_FALSE(check({got("k", "a", 0, 1), unanswered(set("k", "a", 2, 3))}).isFine());
}

TEST(LinearCheckerTest, RejectsHalfOfASetOfTwoKeys) {
  Event both = call(Op::SET, {"a", "b"}, 0, 1);
  both.values = {"1", "1"};
  Event again = call(Op::SET, {"a", "b"}, 2, 5);
  again.values = {"2", "2"};
  Event mixed = call(Op::GET, {"a", "b"}, 3, 4);
  mixed.texts = {"2", "1"};
  EXPECT_FALSE(check({both, again, mixed}).isFine());

  mixed.texts = {"1", "1"};
  EXPECT_TRUE(check({both, again, mixed}).isFine());
}

TEST(LinearCheckerTest, QueuesAreFirstInFirstOut) {
  const auto push = [](const char* element, std::int64_t start, std::int64_t end) {
    Event event = call(Op::PUSH, {"q"}, start, end);
    event.values = {element};
    return event;
  };
  const auto pop = [](const char* element, std::int64_t start, std::int64_t end) {
    Event event = call(Op::POP, {"q"}, start, end);
    event.texts = {element};
    return event;
  };
  EXPECT_TRUE(check({push("a", 0, 1), push("b", 2, 3), pop("a", 4, 5), pop("b", 6, 7)}).isFine());
  EXPECT_FALSE(check({push("a", 0, 1), push("b", 2, 3), pop("b", 4, 5)}).isFine());
  EXPECT_FALSE(check({push("a", 0, 1), pop("a", 2, 9), pop("a", 2, 9)}).isFine());
  EXPECT_FALSE(check({push("a", 0, 1), call(Op::POP, {"q"}, 2, 3)}).isFine());
  EXPECT_TRUE(check({push("a", 0, 3), call(Op::POP, {"q"}, 2, 3)}).isFine());
}

TEST(LinearCheckerTest, GivesUpRatherThanSearchForEver) {
  History history;
  for (int i = 0; i < 40; ++i) {
    history.push_back(set("k", std::to_string(i), 0, 100));
  }
  history.push_back(got("k", "no such value", 101, 102));

  EXPECT_EQ(check(history, 10'000).kind, Verdict::Kind::TOO_LONG);
}

}  // namespace
}  // namespace unisono::linear
