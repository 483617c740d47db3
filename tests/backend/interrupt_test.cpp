// Operations that are left by an exception which is not the group's.
#include <gmock/gmock.h>
#include <stdexcept>

#include "backend/native_world.hpp"
#include "base/wait.hpp"

namespace unisono {
namespace {

using test::NativeWorld;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

struct Interrupt : std::runtime_error {
  using std::runtime_error::runtime_error;
};

thread_local bool interrupted = false;

/// Throws out of what this thread waits for.
class Interrupted {
 public:
  Interrupted() {
    interrupted = true;
    setInterruptHook([] {
      if (interrupted) {
        throw Interrupt("interrupted");
      }
    });
  }
  ~Interrupted() {
    setInterruptHook(nullptr);
    interrupted = false;
  }
  Interrupted(const Interrupted&) = delete;
  Interrupted& operator=(const Interrupted&) = delete;
};

std::string toldToOthers(NativeWorld& world, int who,
                         const std::function<void(NativeBackend&)>& call) {
  {
    const Interrupted here;
    EXPECT_THROW(call(world[who]), Interrupt);
  }
  std::string texts;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != who) {
      texts += textOf<DistBackendError>([&] { call(world[rank]); });
    }
  }
  return texts;
}

class InterruptTest : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, InterruptTest, ::testing::Values(2, 1000, 300'000));

TEST_P(InterruptTest, EndsTheGroupForAll) {
  NativeWorld world(2);
  const auto call = [&](NativeBackend& rank) {
    std::vector<float> data(GetParam(), 1);
    rank.allreduce({Tensor(data)}, {.asyncOp = false})->wait();
  };

  EXPECT_THAT(toldToOthers(world, 0, call),
              AllOf(HasSubstr("[ABORTED]"), HasSubstr("rank 0 has left all_reduce"),
                    HasSubstr("culprits=[0]")));
  EXPECT_THAT(textOf<DistBackendError>([&] { call(world[0]); }), HasSubstr("[ABORTED]"));
}

TEST(InterruptedBarrierTest, EndsTheGroupForAll) {
  for (const int who : {0, 1}) {
    NativeWorld world(2);
    const auto call = [](NativeBackend& rank) { rank.monitoredBarrier({.timeout = 20s}, false); };

    EXPECT_THAT(toldToOthers(world, who, call),
                AllOf(HasSubstr("[ABORTED]"), HasSubstr("has left monitored"),
                      HasSubstr("culprits=[" + std::to_string(who) + "]")));
  }
}

}  // namespace
}  // namespace unisono
