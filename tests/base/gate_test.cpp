#include "base/gate.hpp"

#include <atomic>
#include <gmock/gmock.h>
#include <optional>

#include "base/thread.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::runInChild;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(GateTest, LetsCallsInWhileOpen) {
  Gate gate;
  {
    const Gate::Pass outer(gate, "HashStore");
    const Gate::Pass inner(gate, "HashStore");
  }
  EXPECT_FALSE(gate.isClosed());
  gate.close();
  gate.waitEmpty();
}

TEST(GateTest, RefusesEntrantsOnceClosedNamingTheSubject) {
  Gate gate;
  gate.close();
  gate.close();

  EXPECT_TRUE(gate.isClosed());
  EXPECT_THAT(
      [&] { const Gate::Pass late(gate, "HashStore"); },
      ThrowsMessage<DistStoreError>(AllOf(HasSubstr("HashStore"), HasSubstr("[SHUTDOWN]"))));
  gate.waitEmpty();  // the one refused is not inside
}

TEST(GateTest, RefusesThoseWokenByTheClosingAlike) {
  try {
    Gate::refuse("HashStore");
    FAIL() << "refuse() returned";
  } catch (const DistStoreError& error) {
    EXPECT_EQ(error.reason(), Reason::SHUTDOWN);
    EXPECT_THAT(error.hint(), HasSubstr("end the threads"));
  }
}

TEST(GateTest, WaitsForThoseInside) {
  std::atomic<int> left = 0;
  for (int round = 0; round < 200; ++round) {
    auto gate = std::make_unique<Gate>();
    std::atomic<int> entered = 0;
    left = 0;
    const auto visit = [&] {
      const Gate::Pass pass(*gate, "HashStore");
      ++entered;
      while (!gate->isClosed()) {
        std::this_thread::yield();
      }
      ++left;
    };
    const Thread first("first", visit);
    const Thread second("second", visit);
    while (entered < 2) {
      std::this_thread::yield();
    }

    gate->close();
    gate->waitEmpty();

    ASSERT_EQ(left, 2);
    gate.reset();  // at once: those who left must not touch it any more
  }
}

TEST(GateTest, LeavesThoseInsideThereAfterClosing) {
  Gate gate;
  std::optional<Gate::Pass> pass;
  pass.emplace(gate, "HashStore");

  gate.close();
  EXPECT_THROW(const Gate::Pass late(gate, "HashStore"), DistStoreError);
  pass.reset();
  gate.waitEmpty();
}

TEST(GateTest, IsInertInAForkedChildThoughAThreadOfTheParentIsInside) {
  auto gate = std::make_unique<Gate>();
  std::atomic<bool> entered = false;
  std::atomic<bool> ended = false;
  const Thread visitor("visitor", [&] {
    const Gate::Pass pass(*gate, "HashStore");
    entered = true;
    while (!ended) {
      std::this_thread::yield();
    }
  });
  while (!entered) {
    std::this_thread::yield();
  }

  EXPECT_EQ(runInChild([&] {
              EXPECT_THAT(
                  [&] { const Gate::Pass pass(*gate, "HashStore"); },
                  ThrowsMessage<UsageError>(AllOf(HasSubstr("HashStore"), HasSubstr("[FORKED]"))));
              EXPECT_TRUE(gate->isClosed());
              gate->close();
              gate->waitEmpty();
              gate.reset();
              return true;
            }),
            0);

  ended = true;
}

TEST(GateTest, MayBeLeftByAChildThatWasForkedInside) {
  Gate gate;
  std::optional<Gate::Pass> pass;
  pass.emplace(gate, "HashStore");

  EXPECT_EQ(runInChild([&] {
              pass.reset();
              return true;
            }),
            0);
}

}  // namespace
}  // namespace unisono
