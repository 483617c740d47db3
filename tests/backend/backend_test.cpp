#include "unisono/backend/backend.hpp"

#include <gmock/gmock.h>

#include "unisono/backend/backend_table.hpp"
#include "unisono/base/error.hpp"

#include "store/expect.hpp"
#include "work/sample_calls.hpp"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using test::TensorMaker;
using test::textOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// Offers two operations and remembers what it was asked for.
class SmallBackend final : public Backend {
 public:
  explicit SmallBackend(const BackendParams& params)
      : Backend(params, {.ops = {OpType::ALLREDUCE, OpType::BARRIER}}) {}
  std::string_view name() const noexcept override { return "small"; }
  WorkPtr start(CollectiveArgs&& args) override {
    started.push_back(std::move(args));
    return finishedWork();
  }
  std::vector<CollectiveArgs> started;
};

class BackendTest : public ::testing::Test {
 protected:
  TensorMaker tensor_;
  SmallBackend backend_{{.rank = 1, .size = 3, .options = {.timeout = 5s, .groupName = "g"}}};
};

TEST_F(BackendTest, StartsWhatItOffers) {
  EXPECT_TRUE(backend_.allreduce(tensor_({4}))->wait());
  EXPECT_TRUE(backend_.barrier()->wait());

  ASSERT_EQ(backend_.started.size(), 2U);
  EXPECT_EQ(backend_.started[0].type, OpType::ALLREDUCE);
}

TEST_F(BackendTest, RefusesWhatItDoesNotOfferByC10dsName) {
  EXPECT_THAT(textOf<NotSupportedError>([&] { backend_.gather({}, tensor_({4})); }),
              AllOf(HasSubstr("Backend small does not support gather"), HasSubstr("group=g")));
  EXPECT_THAT(
      textOf<NotSupportedError>([&] { backend_.allGatherSingle(tensor_({3}), tensor_({1})); }),
      HasSubstr("Backend small does not support _allgather_base"));
  EXPECT_THAT(textOf<NotSupportedError>([&] { backend_.monitoredBarrier(); }),
              HasSubstr("does not support monitoredBarrier"));
  EXPECT_THAT(textOf<NotSupportedError>([&] { backend_.submitCoalesced({}); }),
              HasSubstr("Backend small does not implement startCoalescing"));
  EXPECT_THAT(textOf<NotSupportedError>([&] { backend_.split(nullptr, {0}, {}); }),
              HasSubstr("is missing implementation of split."));
  EXPECT_THAT(textOf<NotSupportedError>([&] { backend_.allocateTensor(4, DType::FLOAT32); }),
              HasSubstr("does not support allocateTensor"));
  EXPECT_FALSE(backend_.supportsTensorAlloc({}));
}

TEST_F(BackendTest, StartsNothingThatMakesNoSense) {
  EXPECT_THROW(backend_.allreduce({}), UsageError);
  EXPECT_TRUE(backend_.started.empty());
}

TEST_F(BackendTest, GivesItsTimeoutToOperationsThatHaveNone) {
  CollectiveArgs args;
  EXPECT_EQ(backend_.timeoutOf(args), 5s);
  backend_.setTimeout(7s);
  EXPECT_EQ(backend_.timeoutOf(args), 7s);
  args.timeout = 1ms;
  EXPECT_EQ(backend_.timeoutOf(args), 1ms);
  EXPECT_THROW(backend_.setTimeout(-1ms), UsageError);
}

TEST_F(BackendTest, IsForARankOfItsGroup) {
  EXPECT_THAT(textOf<UsageError>([] { SmallBackend({.rank = 2, .size = 2}); }),
              HasSubstr("Cannot init process group where rank (2) >= world_size (2)"));
  EXPECT_THROW(SmallBackend({.rank = -1, .size = 2}), UsageError);
  EXPECT_THROW(SmallBackend({.rank = 0, .size = 0}), UsageError);
}

TEST(BackendTableTest, MakesBackendsByName) {
  const auto fake = makeBackend("fake", {.rank = 2, .size = 4});
  EXPECT_EQ(fake->name(), "fake");
  EXPECT_EQ(fake->rank(), 2);
  EXPECT_THAT(knownBackends(), Contains("fake"));
}

TEST(BackendTableTest, AnUnknownNameGetsTheKnownOnesAndAGuess) {
  EXPECT_THAT(textOf<UsageError>([] { makeBackend("fakee", {}); }),
              AllOf(HasSubstr("there is no backend 'fakee'"), HasSubstr("did you mean 'fake'"),
                    HasSubstr("[CONFIG]")));
}

TEST(BackendTableTest, TakesBackendsOfPrograms) {
  registerBackend("small", {DeviceType::CPU}, [](const BackendParams& params) {
    return std::make_shared<SmallBackend>(params);
  });

  EXPECT_EQ(makeBackend("small", {})->name(), "small");
  EXPECT_TRUE(backendDevices("small").has(DeviceType::CPU));
  EXPECT_FALSE(backendDevices("small").has(DeviceType::CUDA));
  const auto again = [](const std::string& name) {
    registerBackend(name, {}, [](const BackendParams&) { return nullptr; });
  };
  EXPECT_THAT(textOf<UsageError>([&] { again("small"); }),
              HasSubstr("there is already a backend 'small'"));
  EXPECT_THAT(textOf<UsageError>([&] { again("fake"); }), HasSubstr("already a backend 'fake'"));
  EXPECT_THROW(again("Upper"), UsageError);
  EXPECT_THROW(again("cpu:x"), UsageError);
  again("empty");
  EXPECT_THAT(textOf<UsageError>([] { makeBackend("empty", {}); }), HasSubstr("has made none"));
}

}  // namespace
}  // namespace unisono
