#include "unisono/group/backend_config.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

#include "store/expect.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(BackendConfigTest, ReadsABackendPerDevice) {
  const BackendConfig config = BackendConfig::parse("cpu:unisono,CUDA:nccl");
  EXPECT_THAT(config.backends,
              ElementsAre(Pair(DeviceType::CPU, "unisono"), Pair(DeviceType::CUDA, "nccl")));
  EXPECT_EQ(config.describe(), "cpu:unisono,cuda:nccl");
}

TEST(BackendConfigTest, OneNameIsForAllDevicesOfTheBackend) {
  EXPECT_EQ(BackendConfig::parse("fake").describe(), "cpu:fake,cuda:fake,xpu:fake,meta:fake");
  EXPECT_THROW(BackendConfig::parse("nonesuch"), UsageError);
}

TEST(BackendConfigTest, SaysWhatIsWrongWithAnythingElse) {
  const auto text = [](const char* config) {
    return textOf<UsageError>([&] { BackendConfig::parse(config); });
  };
  EXPECT_THAT(text(""), AllOf(HasSubstr("it is empty"), HasSubstr("[CONFIG]")));
  EXPECT_THAT(text("cpu:"), HasSubstr("'cpu:' is not a device, a colon and a backend"));
  EXPECT_THAT(text("cpu:a,"), HasSubstr("'' is not a device"));
  EXPECT_THAT(text("cpu:a:b"), HasSubstr("'cpu:a:b' is not"));
  EXPECT_THAT(text("gpu:nccl"), HasSubstr("'gpu' is no device; devices are cpu, cuda, xpu"));
  EXPECT_THAT(text("cpu:a,cpu:b"), HasSubstr("two backends for cpu"));
  EXPECT_THAT(text("cpu:a,b"), HasSubstr("'b' is not a device"));
}

}  // namespace
}  // namespace unisono
