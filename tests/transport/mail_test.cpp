// What a rank makes of messages that no rank of ours sends. Messages as such: tests/backend.
#include "transport/shm/mail.hpp"

#include <atomic>
#include <gmock/gmock.h>

#include "store/expect.hpp"
#include "support/thread_world.hpp"

namespace unisono::shm {
namespace {

using test::textOfThrown;
using test::ThreadWorld;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class Noted final : public Parcel {
 public:
  Callbacks ended(int /*source*/, std::exception_ptr reason) noexcept override {
    failure = std::move(reason);
    isOver = true;
    return {};
  }
  std::atomic<bool> isOver{false};  // set last; the mail's own thread may be who drives
  std::exception_ptr failure;
};

class HostileMailTest : public ::testing::TestWithParam<Frame> {
 protected:
  ThreadWorld world{2};
  Mail mail{world.segment(1), 2, {0, 1}};
};

TEST_P(HostileMailTest, EndsTheGroupNamingWhoSentIt) {
  const auto parcel = std::make_shared<Noted>();
  int value = 0;
  parcel->peer = 0;
  parcel->data = reinterpret_cast<std::byte*>(&value);
  parcel->bytes = sizeof value;
  parcel->deadline = Deadline::after(20s);
  const std::vector<std::byte> payload(8);
  Pipe pipe = world.segment(0).pipe(0, 1, Deadline::after(20s));
  ASSERT_TRUE(pipe.isOpen());
  pipe.put(GetParam(), payload);

  mail.post(parcel, true);

  ASSERT_TRUE(parcel->isOver);
  EXPECT_THAT(textOfThrown(parcel->failure),
              AllOf(HasSubstr("[PROTOCOL]"), HasSubstr("culprits=[0]"),
                    HasSubstr("what rank 0 has sent makes no sense")));
  EXPECT_EQ(value, 0);
  EXPECT_THROW(mail.post(std::make_shared<Noted>(), true), DistBackendError);
}

// One that does not care how much is kept of it.
TEST(MailTest, DoesNotKeepMoreAndMoreOfAPeer) {
  ThreadWorld world(2);
  Mail mail(world.segment(1), 2, {0, 1});
  const auto parcel = std::make_shared<Noted>();
  int value = 0;
  parcel->peer = 0;
  parcel->tag = 1;
  parcel->data = reinterpret_cast<std::byte*>(&value);
  parcel->bytes = sizeof value;
  parcel->deadline = Deadline::after(60s);
  Pipe pipe = world.segment(0).pipe(0, 1, Deadline::after(60s));
  ASSERT_TRUE(pipe.isOpen());
  const std::vector<std::byte> payload(8192);
  mail.post(parcel, true);
  std::size_t put = 0;
  while (!parcel->isOver && put < 64U << 20U) {
    for (; pipe.hasRoom(payload.size()); put += payload.size()) {
      pipe.put({.kind = FrameKind::MESSAGE, .tag = 2, .bytes = payload.size()}, payload);
    }
    mail.help(*parcel, systemClock().now() + 1ms);
  }
  EXPECT_LT(put, 16U << 20U);
  EXPECT_THAT(textOfThrown(parcel->failure), AllOf(HasSubstr("[PROTOCOL]"), HasSubstr("[0]")));
}

INSTANTIATE_TEST_SUITE_P(Frames, HostileMailTest,
                         ::testing::Values(Frame{.kind = static_cast<FrameKind>(77), .bytes = 8},
                                           Frame{.kind = FrameKind::MESSAGE, .tag = -1, .bytes = 8},
                                           Frame{.kind = FrameKind::MESSAGE, .bytes = 1U << 20U},
                                           Frame{.kind = FrameKind::TAKE, .number = 5},
                                           Frame{.kind = FrameKind::TAKEN, .number = 5},
                                           Frame{
                                               .kind = FrameKind::PART, .bytes = 8, .number = 5}));

}  // namespace
}  // namespace unisono::shm
