#include "launch/excerpt.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

namespace unisono::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ExcerptTest, AWordMayContainACommaThatIsWrittenTwice) {
  EXPECT_THAT(parseWords("apple,orange"), ElementsAre("apple", "orange"));
  EXPECT_THAT(parseWords("a,,b,c"), ElementsAre("a,b", "c"));
  EXPECT_THAT(parseWords(",,,"), ElementsAre(","));
  EXPECT_THAT(parseWords(""), IsEmpty());
}

TEST(ExcerptTest, AFileThatCannotBeMadeIsNamed) {
  EXPECT_THROW(Excerpt("/nowhere/filtered_stdout.log", {"a"}), DistError);
}

}  // namespace
}  // namespace unisono::launch
