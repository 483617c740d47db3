#include "unisono/group/group_registry.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GroupRegistryTest, FindsGroupsByName) {
  const auto group = std::make_shared<ProcessGroup>(nullptr, 0, 1);
  registerGroup("a", group);

  EXPECT_EQ(resolveGroup("a"), group);
  EXPECT_THAT(groupNames(), Contains("a"));
  EXPECT_TRUE(unregisterGroup("a"));
  EXPECT_FALSE(unregisterGroup("a"));
  EXPECT_THAT(textOf<UsageError>([] { resolveGroup("a"); }),
              HasSubstr("Could not resolve the process group registered under the name 'a'"));
}

TEST(GroupRegistryTest, ANameIsForOneLivingGroup) {
  auto group = std::make_shared<ProcessGroup>(nullptr, 0, 1);
  registerGroup("b", group);
  EXPECT_THAT(
      textOf<UsageError>([&] { registerGroup("b", group); }),
      AllOf(HasSubstr("The specified group name has already been created"), HasSubstr("'b'")));

  group.reset();

  EXPECT_THAT(groupNames(), Not(Contains("b")));
  EXPECT_THROW(resolveGroup("b"), UsageError);
  const auto next = std::make_shared<ProcessGroup>(nullptr, 0, 1);
  EXPECT_NO_THROW(registerGroup("b", next));
  unregisterGroup("b");
}

TEST(GroupRegistryTest, TakesNeitherNoNameNorNoGroup) {
  EXPECT_THROW(registerGroup("c", nullptr), UsageError);
  EXPECT_THROW(registerGroup("", std::make_shared<ProcessGroup>(nullptr, 0, 1)), UsageError);
}

}  // namespace
}  // namespace unisono
