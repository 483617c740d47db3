#include "unisono/base/error.hpp"

#include <gmock/gmock.h>

namespace unisono {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ErrorTest, PrintsOneLinePersonFirstMachineLast) {
  const DistStoreError error({.reason = Reason::TIMEOUT,
                              .what = "get gave up: wait timeout after 50ms, keys: /a",
                              .hint = "is rank 3 running?",
                              .op = "get",
                              .seq = 42,
                              .group = "world",
                              .rank = 2,
                              .world = 4,
                              .culprits = {3, 5},
                              .host = "10.0.0.1:29500",
                              .elapsed = std::chrono::milliseconds(50)});

  EXPECT_STREQ(error.what(),
               "unisono: get gave up: wait timeout after 50ms, keys: /a. DO: is rank 3 running? "
               "[TIMEOUT] {op=get seq=42 group=world rank=2/4 culprits=[3,5] host=10.0.0.1:29500 "
               "elapsed=50ms}");
}

TEST(ErrorTest, LeavesOutWhatIsUnknown) {
  const UsageError error({.reason = Reason::USAGE, .what = "world size cannot be 0"});

  EXPECT_STREQ(error.what(), "unisono: world size cannot be 0. [USAGE]");
}

TEST(ErrorTest, NeverBreaksTheLineWhateverTheTextHolds) {
  const UsageError error({.reason = Reason::USAGE, .what = "key a\nb\r\x1b[31m"});

  EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
  EXPECT_THAT(error.what(), HasSubstr("a\\x0ab\\x0d\\x1b[31m"));
}

TEST(ErrorTest, IsCaughtAsItsParents) {
  EXPECT_THROW(throw DistQueueEmptyError({.what = "queue is empty"}), DistStoreError);
  EXPECT_THROW(throw NotSupportedError({.what = "no queues"}), UsageError);
  EXPECT_THROW(throw DistNetworkError({.what = "gone"}), DistError);
  EXPECT_THROW(throw DistAuthError({.what = "wrong secret"}), std::runtime_error);
}

}  // namespace
}  // namespace unisono
