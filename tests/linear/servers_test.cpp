// Real servers under faults: what their clients were told can be put in order.
#include <gmock/gmock.h>

#include "linear/checker.hpp"
#include "linear/recording.hpp"

namespace unisono::linear {
namespace {

class LinearServersTest : public ::testing::TestWithParam<Circumstances> {};
INSTANTIATE_TEST_SUITE_P(
    Circumstances, LinearServersTest,
    ::testing::Values(Circumstances{"Uv", true, false, false, false},
                      Circumstances{"Poll", false, false, false, false},
                      Circumstances{"SynchronousWrites", true, true, false, false},
                      Circumstances{"PausesOfTheServer", true, false, true, false},
                      Circumstances{"CutConnections", true, false, false, true},
                      Circumstances{"PausesAndCuts", false, true, true, true}),
    [](const auto& kind) { return kind.param.name; });

TEST_P(LinearServersTest, GiveAnswersThatCanBePutInOrder) {
  // Short enough that the search always ends: on a busy machine more calls overlap.
  const History all = record({.how = GetParam(), .clients = 4, .calls = 250});

  const Verdict verdict = check(all);

  EXPECT_TRUE(verdict.isFine()) << verdict.why;
  RecordProperty("calls", static_cast<int>(all.size()));
  RecordProperty("steps", static_cast<int>(verdict.steps));
}

}  // namespace
}  // namespace unisono::linear
