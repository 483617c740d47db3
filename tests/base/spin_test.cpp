#include "base/spin.hpp"

#include <gmock/gmock.h>

#include "support/support.hpp"

namespace unisono {
namespace {

using std::chrono::microseconds;

/// Counts how often it is looked.
struct Looks {
  int count = 0;
  bool result = false;
  bool operator()() {
    ++count;
    return result;
  }
};

TEST(SpinTest, EndsWithTheFirstSuccess) {
  const test::ScopedEnv asked("UNISONO_SPIN_US", "1000000");
  Spin spin(microseconds(0));
  int count = 0;

  EXPECT_TRUE(spin.until([&] { return ++count > 0; }));

  EXPECT_EQ(count, 1) << "it looked again";
}

TEST(SpinTest, GivesUpInTime) {
  const test::ScopedEnv asked("UNISONO_SPIN_US", "200");
  Spin spin(microseconds(0));
  const TimePoint start = systemClock().now();

  EXPECT_FALSE(spin.until([] { return false; }));

  EXPECT_GE(systemClock().now() - start, microseconds(200));
}

TEST(SpinTest, HardlyEverLooksWhereNothingCame) {
  const test::ScopedEnv asked("UNISONO_SPIN_US", "1");
  Spin spin(microseconds(0));
  const auto lookOften = [&](bool result) {
    int tried = 0;
    for (int i = 0; i < 1000; ++i) {
      bool looked = false;
      spin.until([&] {
        looked = true;
        return result;
      });
      tried += looked ? 1 : 0;
    }
    return tried;
  };

  EXPECT_LT(lookOften(false), 50);
  while (!spin.until([] { return true; })) {  // also after strangers have used the cores
  }
  EXPECT_GT(lookOften(true), 900) << "it never found out that it pays off again";
}

TEST(SpinTest, CanBeSwitchedOff) {
  const test::ScopedEnv off("UNISONO_SPIN_US", "0");
  Spin spin(microseconds(1000));
  Looks looks{.result = true};

  EXPECT_FALSE(spin.until([&] { return looks(); }));

  EXPECT_EQ(looks.count, 0);
}

TEST(SpinTest, SleepsAtOnceForAWhileWhereStrangersUseTheCores) {
  const test::ScopedEnv asked("UNISONO_SPIN_US", "10000");
  Spin spin(microseconds(0));
  Looks looks;
  const auto until = [](TimePoint when) {
    while (systemClock().now() < when) {}
  };
  const TimePoint start = systemClock().now();
  EXPECT_FALSE(spin.until([&] {
    until(start + microseconds(2000));  // as if somebody else had the core
    return looks();
  }));
  EXPECT_EQ(looks.count, 2) << "one more, after it knows";

  looks = {.count = 0, .result = true};
  while (!spin.until([&] { return looks(); })) {  // the while passes by itself
  }
  EXPECT_EQ(looks.count, 1);
  EXPECT_GE(systemClock().now() - start, microseconds(20'000));
}

}  // namespace
}  // namespace unisono
