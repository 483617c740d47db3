#include "linear/checker.hpp"

#include <gmock/gmock.h>

namespace unisono::linear {
namespace {

using ::testing::HasSubstr;

/// A call that was answered, each by another client.
Event call(Op op, std::vector<std::string> keys, std::int64_t start, std::int64_t end) {
  static int clients = 0;
  Event event;
  event.client = ++clients;
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
Event push(const std::string& element, std::int64_t start, std::int64_t end) {
  Event event = call(Op::PUSH, {"q"}, start, end);
  event.values = {element};
  return event;
}
Event pop(const std::string& element, std::int64_t start, std::int64_t end) {
  Event event = call(Op::POP, {"q"}, start, end);
  event.texts = {element};
  return event;
}
Event length(std::int64_t result, std::int64_t start, std::int64_t end) {
  Event event = call(Op::LENGTH, {"q"}, start, end);
  event.result = result;
  return event;
}
Event by(int client, Event event) {
  event.client = client;
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
  EXPECT_TRUE(check({push("a", 0, 1), push("b", 2, 3), pop("a", 4, 5), pop("b", 6, 7)}).isFine());
  EXPECT_FALSE(check({push("a", 0, 1), push("b", 2, 3), pop("b", 4, 5)}).isFine());
  EXPECT_FALSE(check({push("a", 0, 1), pop("a", 2, 9), pop("a", 2, 9)}).isFine());
  EXPECT_FALSE(check({push("a", 0, 1), call(Op::POP, {"q"}, 2, 3)}).isFine());
  EXPECT_TRUE(check({push("a", 0, 3), call(Op::POP, {"q"}, 2, 3)}).isFine());
}

TEST(LinearCheckerTest, CallsOfOneClientHappenInTheirOrderAlsoThoseItDidNotWaitFor) {
  const Event first = by(1, set("k", "a", 0, 9));
  const Event second = by(1, set("k", "b", 1, 9));
  EXPECT_TRUE(check({first, second, got("k", "b", 10, 11)}).isFine());
  EXPECT_FALSE(check({first, second, got("k", "a", 10, 11)}).isFine());
  EXPECT_FALSE(check({by(1, push("a", 0, 9)), by(1, push("b", 1, 9)), pop("b", 10, 11)}).isFine());
}

TEST(LinearCheckerTest, APieceThatWasAppendedStaysWhereItWasSeen) {
  const auto appended = [](const char* piece, std::int64_t start, std::int64_t end) {
    Event event = call(Op::APPEND, {"k"}, start, end);
    event.values = {piece};
    return event;
  };
  const History writes = {set("k", "a", 0, 1), appended("b", 2, 9), appended("c", 2, 9)};
  const auto with = [&](std::vector<Event> reads) {
    History history = writes;
    history.insert(history.end(), reads.begin(), reads.end());
    return check(history);
  };
  EXPECT_TRUE(with({got("k", "ab", 3, 4), got("k", "abc", 5, 6)}).isFine());
  EXPECT_TRUE(with({got("k", "ac", 3, 4), got("k", "acb", 10, 11)}).isFine());
  EXPECT_FALSE(with({got("k", "ac", 3, 4), got("k", "abc", 5, 6)}).isFine());
  EXPECT_FALSE(with({got("k", "abc", 3, 4), got("k", "ab", 5, 6)}).isFine());
}

TEST(LinearCheckerTest, ACompareSetWithoutAnAnswerMayHaveFoundWhatNobodyWasTold) {
  Event swap = call(Op::COMPARE_SET, {"k"}, 2, 3);
  swap.values = {"a", "b"};
  EXPECT_TRUE(check({set("k", "a", 0, 1), unanswered(swap), got("k", "b", 4, 5)}).isFine());
  EXPECT_FALSE(check({set("k", "c", 0, 1), unanswered(swap), got("k", "b", 4, 5)}).isFine());
}

TEST(LinearCheckerTest, APopWithoutAnAnswerTookAnElementOrNone) {
  const Event lost = unanswered(pop("", 4, 5));
  EXPECT_TRUE(check({push("a", 0, 1), push("b", 2, 3), lost, pop("b", 6, 7)}).isFine());
  EXPECT_TRUE(check({push("a", 0, 1), push("b", 2, 3), lost, pop("a", 6, 7)}).isFine());
  EXPECT_FALSE(check({push("a", 0, 1), push("b", 2, 3), pop("b", 2, 3), lost}).isFine());
}

TEST(LinearCheckerTest, APopWithoutAnAnswerTookWhatHadToBeOutOfTheWay) {
  EXPECT_TRUE(check({by(3, push("c", 10, 90)), by(3, push("d", 12, 90)), push("a", 14, 15),
                     push("b", 16, 50), unanswered(pop("", 100, 101)), length(3, 120, 140),
                     pop("d", 130, 135), length(2, 150, 151)})
                  .isFine());
}

// Forty elements that went in at once, in one of 40! orders.
TEST(LinearCheckerTest, FindsTheOrderOfManyPushesThatOverlap) {
  History history;
  for (int i = 0; i < 40; ++i) {
    history.push_back(push(std::to_string(i), 0, 100));
    history.push_back(pop(std::to_string((i * 7) % 40), 200 + 10 * i, 215 + 10 * i));
  }
  history.push_back(length(40, 101, 102));
  history.push_back(length(20, 395, 405));
  EXPECT_TRUE(check(history, 10'000).isFine());
}

TEST(LinearCheckerTest, RejectsPushesThatOverlapWhenNoOrderOfThemWillDo) {
  History history = {push("a", 0, 9), push("b", 0, 9), push("c", 0, 9), pop("b", 10, 11)};
  history.push_back(length(1, 3, 4));
  history.push_back(by(history[1].client, length(1, 10, 12)));
  EXPECT_FALSE(check(history).isFine());

  history.back().result = 2;
  EXPECT_TRUE(check(history).isFine());
}

TEST(LinearCheckerTest, SaysAtOnceThatNobodyWroteWhatWasTold) {
  History history;
  for (int i = 10; i < 50; ++i) {
    history.push_back(set("k", std::to_string(i), 0, 100));
  }
  history.push_back(got("k", "no such value", 101, 102));

  const Verdict verdict = check(history);

  EXPECT_EQ(verdict.kind, Verdict::Kind::WRONG);
  EXPECT_THAT(verdict.why, HasSubstr("nothing was written that explains"));
}

TEST(LinearCheckerTest, GivesUpAfterSoManySteps) {
  History history;
  for (int i = 10; i < 50; ++i) {
    history.push_back(set("k", std::to_string(i), 0, 100));
  }
  EXPECT_EQ(check(history, 10).kind, Verdict::Kind::TOO_LONG);
  EXPECT_TRUE(check(history, 40).isFine());
}

TEST(LinearCheckerTest, FindsAWrongAnswerBehindKeysThatItGaveUpOn) {
  History history;
  for (int i = 10; i < 50; ++i) {
    history.push_back(set("a", std::to_string(i), 0, 100));
  }
  history.push_back(set("b", "1", 0, 1));
  history.push_back(set("b", "2", 2, 3));
  EXPECT_EQ(check(history, 10).kind, Verdict::Kind::TOO_LONG);

  history.push_back(got("b", "1", 4, 5));
  EXPECT_EQ(check(history, 10).kind, Verdict::Kind::WRONG);
}

TEST(LinearCheckerTest, RejectsInTheEndWhatHasManyBeginnings) {
  // All at the same time: seven deletes that found something, but only six that put it there.
  History history;
  for (int i = 0; i < 7; ++i) {
    history.push_back(call(Op::DELETE, {"k"}, 0, 100));
    history.back().result = 1;
    if (i > 0) {
      history.push_back(set("k", std::to_string(i), 0, 100));
    }
  }

  EXPECT_EQ(check(history, 1'000'000).kind, Verdict::Kind::WRONG);

  history.push_back(set("k", "7", 0, 100));
  EXPECT_TRUE(check(history, 1'000'000).isFine());
}

}  // namespace
}  // namespace unisono::linear
