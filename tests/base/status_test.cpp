#include "base/status.hpp"

#include <gmock/gmock.h>
#include <memory>

namespace unisono {
namespace {

TEST(StatusTest, IsFineUnlessToldOtherwise) {
  EXPECT_TRUE(Status().isOk());
  EXPECT_TRUE(Status::ok().isOk());
}

TEST(StatusTest, KeepsReasonAndText) {
  const Status status(Reason::PROTOCOL, "client 7 sent an unknown query type 99");

  EXPECT_FALSE(status.isOk());
  EXPECT_EQ(status.reason(), Reason::PROTOCOL);
  EXPECT_EQ(status.text(), "client 7 sent an unknown query type 99");
}

TEST(StatusTest, HasNoReasonWhenFine) {
  EXPECT_THROW(static_cast<void>(Status().reason()), std::bad_optional_access);
  EXPECT_THROW(static_cast<void>(Status().text()), std::bad_optional_access);
}

TEST(ResultTest, HoldsTheValue) {
  Result<int> result = 5;

  EXPECT_TRUE(result.isOk());
  EXPECT_EQ(result.value(), 5);
  EXPECT_TRUE(result.failure().isOk());

  result.value() = 6;
  EXPECT_EQ(std::as_const(result).value(), 6);
}

TEST(ResultTest, HoldsTheFailureAndNoValue) {
  const Result<int> result = Status(Reason::PEER_LEFT, "gone");

  EXPECT_FALSE(result.isOk());
  EXPECT_EQ(result.failure().reason(), Reason::PEER_LEFT);
  EXPECT_THROW(static_cast<void>(result.value()), std::bad_optional_access);
}

TEST(ResultTest, CarriesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = std::move(result.value());

  EXPECT_EQ(*taken, 3);
}

#ifndef NDEBUG
TEST(ResultDeathTest, IsNeverMadeOfAStatusThatIsFine) {
  EXPECT_DEATH(static_cast<void>(Result<int>(Status::ok())), "broken assumption");
}
#endif

}  // namespace
}  // namespace unisono
