// Calls about all keys at once: nothing right is rejected, and what is beyond doubt wrong is.
#include "linear/counts.hpp"

#include <gmock/gmock.h>

#include "linear/checker.hpp"

namespace unisono::linear {
namespace {

using Kind = Verdict::Kind;

const std::vector<std::string> kKeys = {"a", "b", "c"};

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
Event set(const std::string& key, std::int64_t start, std::int64_t end) {
  Event event = call(Op::SET, {key}, start, end);
  event.values = {key + std::to_string(start)};
  return event;
}
Event deleted(const std::string& key, std::int64_t start, std::int64_t end) {
  Event event = call(Op::DELETE, {key}, start, end);
  event.result = 1;
  return event;
}
Event counted(std::int64_t result, std::int64_t start, std::int64_t end) {
  Event event = call(Op::COUNT, kKeys, start, end);
  event.result = event.number = result;
  return event;
}
Event listed(std::vector<std::string> texts, std::int64_t start, std::int64_t end) {
  Event event = call(Op::LIST, kKeys, start, end);
  event.texts = std::move(texts);
  return event;
}
Event arrived(const std::string& key, std::int64_t start, std::int64_t end) {
  return call(Op::ARRIVE, {key}, start, end);
}
Event reached(const std::string& key, std::int64_t count, std::int64_t start, std::int64_t end) {
  Event event = call(Op::REACHED, {key}, start, end);
  event.number = count;
  return event;
}
Event unanswered(Event event) {
  event.known = false;
  event.end = kNever;
  return event;
}
Kind kindOf(const History& history) {
  return check(history).kind;
}

TEST(CountsTest, ANumberOfKeysIsTheOneThatThereWere) {
  const History before = {set("a", 0, 1), set("b", 2, 3), deleted("a", 4, 5), set("c", 6, 7)};
  for (std::int64_t count = 0; count <= 4; ++count) {
    History history = before;
    history.push_back(counted(count, 8, 9));

    EXPECT_EQ(kindOf(history), count == 2 ? Kind::FINE : Kind::WRONG) << count;
  }
}

TEST(CountsTest, ANumberMayBeAnyThatThereWasInTheMeantime) {
  const History before = {set("a", 0, 1), set("b", 10, 20), deleted("a", 10, 20)};
  for (std::int64_t count = 0; count <= 3; ++count) {
    History history = before;
    history.push_back(counted(count, 12, 18));

    EXPECT_EQ(kindOf(history), count <= 2 ? Kind::FINE : Kind::WRONG) << count;
  }
}

TEST(CountsTest, AChangeWithoutAnAnswerMayHaveHappenedAtAnyTime) {
  const History before = {set("a", 0, 1), unanswered(set("b", 2, 3)),
                          unanswered(deleted("a", 2, 3))};
  for (std::int64_t count = 0; count <= 3; ++count) {
    History history = before;
    history.push_back(counted(count, 100, 101));

    EXPECT_EQ(kindOf(history), count <= 2 ? Kind::FINE : Kind::WRONG) << count;
  }
}

TEST(CountsTest, AWriteThatHasReturnedAndIsNotConfirmedMayStillCome) {
  Event late = set("b", 2, 3);
  late.known = false;
  EXPECT_EQ(kindOf({set("a", 0, 1), late, listed({"a"}, 4, 5), counted(2, 6, 7)}), Kind::FINE);
}

TEST(CountsTest, ANumberFitsIntoTheOrderOfTheGroupThatIsOpen) {
  // That "a" was gone already is what the first number says; so it was for the second.
  const History fine = {set("a", 0, 1), deleted("a", 2, 9), counted(0, 3, 4), counted(0, 5, 6)};
  const History wrong = {set("a", 0, 1), deleted("a", 2, 9), counted(0, 3, 4), counted(1, 5, 6)};

  EXPECT_EQ(kindOf(fine), Kind::FINE);
  EXPECT_EQ(kindOf(wrong), Kind::WRONG);
}

TEST(CountsTest, AListHasTheKeysThatThereWere) {
  const History before = {set("a", 0, 1), set("b", 2, 3), deleted("a", 4, 5)};
  const auto after = [&](std::vector<std::string> texts) {
    History history = before;
    history.push_back(listed(std::move(texts), 6, 7));
    return kindOf(history);
  };

  EXPECT_EQ(after({"b"}), Kind::FINE);
  EXPECT_EQ(after({}), Kind::WRONG);
  EXPECT_EQ(after({"a", "b"}), Kind::WRONG);
  EXPECT_EQ(after({"b", "b"}), Kind::WRONG);
  EXPECT_EQ(after({"b", "x"}), Kind::WRONG);  // which nobody ever set
}

TEST(CountsTest, ABarrierIsReachedByThoseWhoArrived) {
  EXPECT_EQ(kindOf({arrived("a", 0, 9), arrived("a", 5, 9), reached("a", 2, 0, 9)}), Kind::FINE);
  EXPECT_EQ(kindOf({arrived("a", 0, 4), arrived("a", 5, 9), reached("a", 2, 0, 4)}), Kind::WRONG);
  EXPECT_EQ(kindOf({arrived("a", 0, 4), unanswered(arrived("a", 1, 2)), reached("a", 2, 0, 4)}),
            Kind::FINE);
}

}  // namespace
}  // namespace unisono::linear
