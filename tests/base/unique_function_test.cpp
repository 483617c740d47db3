#include "base/unique_function.hpp"

#include <gmock/gmock.h>
#include <string>

namespace unisono {
namespace {

/// Counts how many of it were destroyed while holding the count.
class Counted {
 public:
  explicit Counted(int& destroyed) : destroyed_(&destroyed) {}
  Counted(Counted&& other) noexcept : destroyed_(std::exchange(other.destroyed_, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (destroyed_ != nullptr) {
      ++*destroyed_;
    }
  }
  int operator()() const { return 7; }

 private:
  int* destroyed_;
};

int twice(int x) {
  return 2 * x;
}

TEST(UniqueFunctionTest, IsEmptyUntilGivenSomething) {
  UniqueFunction<void()> function;
  EXPECT_FALSE(function);

  function = [] {};
  EXPECT_TRUE(function);
}

TEST(UniqueFunctionTest, HoldsWhatCanOnlyBeMoved) {
  UniqueFunction<int(int)> add = [base = std::make_unique<int>(40)](int x) { return *base + x; };

  EXPECT_EQ(add(2), 42);
}

TEST(UniqueFunctionTest, KeepsStateBetweenCalls) {
  UniqueFunction<int()> count = [n = 0]() mutable { return ++n; };

  EXPECT_EQ(count(), 1);
  EXPECT_EQ(count(), 2);
}

TEST(UniqueFunctionTest, LeavesTheSourceOfAMoveEmpty) {
  UniqueFunction<int()> first = [] { return 1; };
  UniqueFunction<int()> second = std::move(first);

  EXPECT_FALSE(first);  // NOLINT: looking at what the move left is the point
  EXPECT_EQ(second(), 1);

  first = std::move(second);
  EXPECT_FALSE(second);  // NOLINT
  EXPECT_EQ(first(), 1);
}

TEST(UniqueFunctionTest, DestroysItsCallableOnce) {
  int destroyed = 0;
  {
    UniqueFunction<int()> first{Counted(destroyed)};
    UniqueFunction<int()> second = std::move(first);
    EXPECT_EQ(second(), 7);
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(UniqueFunctionTest, DestroysTheOldCallableWhenGivenANewOne) {
  int destroyed = 0;
  UniqueFunction<int()> function{Counted(destroyed)};

  function = [] { return 8; };

  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(function(), 8);
}

TEST(UniqueFunctionTest, PassesReferencesAndMovableArgumentsOn) {
  UniqueFunction<std::string&(std::string&, std::unique_ptr<std::string>)> append =
      [](std::string& to, std::unique_ptr<std::string> what) -> std::string& {
    return to += *what;
  };
  std::string text = "a";

  EXPECT_EQ(&append(text, std::make_unique<std::string>("b")), &text);
  EXPECT_EQ(text, "ab");
}

TEST(UniqueFunctionTest, LetsExceptionsThrough) {
  UniqueFunction<void()> function = [] { throw 5; };

  EXPECT_THROW(function(), int);
}

TEST(UniqueFunctionTest, HoldsPlainFunctions) {
  UniqueFunction<int(int)> function = twice;
  UniqueFunction<int(int)> pointer = &twice;

  EXPECT_EQ(function(4), 8);
  EXPECT_EQ(pointer(5), 10);
}

TEST(UniqueFunctionTest, DropsTheResultWhenNoneIsWanted) {
  int called = 0;
  UniqueFunction<void()> function = [&] { return ++called; };

  function();

  EXPECT_EQ(called, 1);
}

TEST(UniqueFunctionTest, HoldsMembers) {
  UniqueFunction<std::size_t(const std::string&)> length = &std::string::size;

  EXPECT_EQ(length("four"), 4U);
}

TEST(UniqueFunctionTest, CannotBeCopied) {
  EXPECT_FALSE(std::is_copy_constructible_v<UniqueFunction<void()>>);
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<UniqueFunction<void()>>);
  EXPECT_TRUE(std::is_nothrow_move_assignable_v<UniqueFunction<void()>>);
}

#ifndef NDEBUG
TEST(UniqueFunctionDeathTest, SaysSoWhenAnEmptyOneIsCalled) {
  UniqueFunction<void()> function;

  EXPECT_DEATH(function(), "broken assumption");
}
#endif

}  // namespace
}  // namespace unisono
