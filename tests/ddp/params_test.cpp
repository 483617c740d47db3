#include "unisono/ddp/params.hpp"

#include <gmock/gmock.h>

#include "group/in_world.hpp"
#include "store/expect.hpp"

namespace unisono {
namespace {

using test::errorOf;
using test::inWorld;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Nobody looks at the elements of what is compared.
Tensor shaped(DType type, Dims sizes) {
  alignas(16) static std::byte memory[1024];
  return {memory, type, std::move(sizes)};
}

/// What all ranks of a world of 3 are told, where `changed` makes rank 2's parameters others; then
/// the group is used once more.
std::string refusalOf(const std::function<void(std::vector<Param>&)>& change, int odd = 2) {
  std::vector<std::string> told(3);
  inWorld(3, [&](Group world) {
    std::vector<Param> params = {{shaped(DType::FLOAT32, {2, 3}), "conv.weight"},
                                 {shaped(DType::FLOAT32, {3}), "conv.bias"}};
    if (world.rank() == odd) {
      change(params);
    }
    const auto facts = errorOf<DistBackendError>([&] { verifyParams(world, params); });
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->reason, Reason::MISMATCH);
    EXPECT_THAT(facts->culprits, ElementsAre(odd));
    told[static_cast<std::size_t>(world.rank())] = facts->what;
    world.barrier();
  });
  EXPECT_EQ(told[0], told[1]);
  EXPECT_EQ(told[0], told[2]);
  return told[0];
}

TEST(VerifyParamsTest, LetsEqualParametersPass) {
  inWorld(3, [](Group world) {
    const std::vector<Param> params = {{shaped(DType::FLOAT32, {2, 3}), "weight"},
                                       {shaped(DType::BFLOAT16, {0}), ""}};
    verifyParams(world, params);
    verifyParams(world, {});
  });
}

TEST(VerifyParamsTest, TellsAllRanksWhoHasAnotherNumberOfThem) {
  EXPECT_THAT(refusalOf([](std::vector<Param>& params) { params.pop_back(); }),
              AllOf(HasSubstr("DDP expects same model across all ranks"),
                    HasSubstr("Rank 0 has 2 params, while rank 2 has inconsistent 1 params")));
}

TEST(VerifyParamsTest, TellsAllRanksWhichParameterDiffersInWhat) {
  EXPECT_THAT(
      refusalOf([](std::vector<Param>& params) { params[1].value = shaped(DType::FLOAT32, {4}); }),
      AllOf(HasSubstr("conv.bias (parameter 1) of rank 2 has sizes [4], but [3]"),
            HasSubstr("appears not to match sizes of the same param in process 0")));
  EXPECT_THAT(refusalOf([](std::vector<Param>& params) {
                params[0].value = shaped(DType::FLOAT64, {2, 3});
              }),
              HasSubstr("conv.weight (parameter 0) of rank 2 has type float64, but float32"));
  EXPECT_THAT(refusalOf([](std::vector<Param>& params) {
                params[0].value = Tensor(params[0].value.data(), DType::FLOAT32, {2, 3}, {1, 2});
              }),
              AllOf(HasSubstr("has strides [1, 2], but of C order"),
                    HasSubstr("appears not to match strides of the same param in process 0")));
  EXPECT_THAT(refusalOf([](std::vector<Param>& params) { params[1].name = "fc.bias"; }),
              HasSubstr("parameter 1 is called 'fc.bias' on rank 2, but 'conv.bias' on rank 0"));
}

TEST(VerifyParamsTest, BlamesTheFew) {
  EXPECT_THAT(refusalOf([](std::vector<Param>& params) { params.pop_back(); }, 0),
              HasSubstr("Rank 1 has 2 params, while rank 0 has inconsistent 1 params"));
}

TEST(VerifyParamsTest, DoesNotCountStridesOfDimensionsThatHaveOneElement) {
  inWorld(2, [](Group world) {
    const Tensor value = shaped(DType::FLOAT32, {4, 1, 3});
    const Dims strides = world.rank() == 0 ? Dims{1, 7, 4} : Dims{1, 9, 4};
    const std::vector<Param> params = {
        {Tensor(value.data(), DType::FLOAT32, {4, 1, 3}, strides), "weight"}};
    verifyParams(world, params);
  });
}

}  // namespace
}  // namespace unisono
