// Gradients come in another order on every rank, in every step, from one thread or several;
// buckets, and what is unused, are drawn too. Each seed is a training of its own.
#include <gmock/gmock.h>
#include <random>

#include "unisono/ddp/reducer.hpp"

#include "ddp/training.hpp"
#include "group/in_world.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::inWorld;
using test::shuffled;
using test::Training;
using ::testing::Each;

constexpr unsigned kSeeds = 120;  // for each number of ranks
constexpr int kSteps = 3;

/// What a seed decides, the same for all ranks.
struct Draw {
  std::vector<std::size_t> sizes;
  BucketIndices buckets;
  ReducerOptions options;
  int threads = 1;
  bool tellsUnused = false;  // before the step; otherwise finish() finds out

  static Draw of(unsigned seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t end) { return random() % end; };
    Draw draw;
    const std::size_t params = 1 + below(12);
    for (std::size_t i = 0; i < params; ++i) {
      draw.sizes.push_back(below(200));
    }
    for (const std::size_t param : shuffled(params, seed)) {
      if (draw.buckets.empty() || below(3) == 0) {
        draw.buckets.emplace_back();
      }
      draw.buckets.back().push_back(param);
    }
    draw.options = {.bucketBytesCap = 1 + below(1000),
                    .firstBucketBytesCap = 1 + below(1000),
                    .findUnusedParameters = below(2) == 0,
                    .gradientAsBucketView = below(2) == 0};
    draw.tellsUnused = below(2) == 0;
    draw.options.markMissingAsUnused = draw.options.findUnusedParameters && !draw.tellsUnused;
    draw.threads = below(4) == 0 ? 3 : 1;
    return draw;
  }
};

/// Reduces like none, and notes which bucket it was called for.
class NotingOrder final : public CommHook {
 public:
  explicit NotingOrder(Group group) : group_(std::move(group)) {}
  Future run(GradBucket& bucket) override {
    noted.push_back(bucket.index());
    return group_.allReduce(bucket.buffer(), {.op = ReduceOp::AVG, .async = true})->getFuture();
  }
  std::vector<std::size_t> noted;

 private:
  Group group_;
};

/// The training of one seed on one rank.
class Trained {
 public:
  Trained(Group world, unsigned seed)
      : world_(world),
        seed_(seed),
        draw_(Draw::of(seed)),
        training_(draw_.sizes),
        host_(draw_.sizes.size()),
        reducer_(world, training_.params, draw_.buckets, host_, draw_.options),
        hook_(std::make_shared<NotingOrder>(world)) {
    if (seed % 2 == 0) {
      reducer_.registerCommHook(hook_);
    }
  }

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      const bool rebuilt = reducer_.rebuildBuckets();
      EXPECT_EQ(rebuilt, step == 1 && !draw_.options.findUnusedParameters) << name(step);
      take(step);
      checkOrder(step);
      for (std::size_t param = 0; param < training_.size(); ++param) {
        check(param, step);
      }
    }
  }

 private:
  std::string name(int step) const {
    return str("seed ", seed_, ", ", world_.size(), " ranks, rank ", world_.rank(), ", step ",
               step);
  }

  bool uses(int rank, int step, std::size_t param) const {
    const unsigned drawn = 31 * seed_ + 17 * static_cast<unsigned>(step) +
                           7 * static_cast<unsigned>(rank) + 13 * static_cast<unsigned>(param);
    return !draw_.options.findUnusedParameters || (drawn * 2'654'435'761U >> 16) % 3 != 0;
  }

  void take(int step) {
    std::vector<std::size_t> unused;
    std::vector<std::size_t> used;
    for (const std::size_t param :
         shuffled(training_.size(), 77 * seed_ + 7 * static_cast<unsigned>(step) +
                                        static_cast<unsigned>(world_.rank()))) {
      (uses(world_.rank(), step, param) ? used : unused).push_back(param);
      host_.set(param, Tensor());
    }
    hook_->noted.clear();
    reducer_.beginBackward(draw_.tellsUnused ? unused : std::vector<std::size_t>{});
    const auto mark = [&](std::size_t first, std::size_t stride) {
      for (std::size_t at = first; at < used.size(); at += stride) {
        training_.compute(host_, used[at], world_.rank(), step);
        reducer_.markReady(used[at]);
      }
    };
    if (draw_.threads == 1) {
      mark(0, 1);
    } else {
      EXPECT_THAT(test::onThreads(draw_.threads,
                                  [&](int thread) {
                                    mark(static_cast<std::size_t>(thread),
                                         static_cast<std::size_t>(draw_.threads));
                                  }),
                  Each(std::exception_ptr()))
          << name(step);
    }
    reducer_.finish();
  }

  void checkOrder(int step) const {
    if (seed_ % 2 != 0) {
      return;
    }
    std::vector<std::size_t> inOrder(reducer_.buckets().size());
    std::iota(inOrder.begin(), inOrder.end(), 0);
    EXPECT_EQ(hook_->noted, inOrder) << name(step);
  }

  void check(std::size_t param, int step) {
    std::vector<int> users;
    for (int rank = 0; rank < world_.size(); ++rank) {
      if (uses(rank, step, param)) {
        users.push_back(rank);
      }
    }
    const Tensor grad = host_.grad(param);
    ASSERT_EQ(grad.defined(), !users.empty()) << name(step) << ", parameter " << param;
    for (std::size_t at = 0; grad.defined() && at < draw_.sizes[param]; ++at) {
      float sum = 0;
      for (const int rank : users) {
        sum += Training<float>::gradientOf(rank, step, param, at);
      }
      const float average = sum / static_cast<float>(world_.size());
      if (grad.dataAs<float>()[at] != average) {
        ADD_FAILURE() << name(step) << ", parameter " << param << ", element " << at << " is "
                      << grad.dataAs<float>()[at] << ", not " << average;
        return;
      }
    }
  }

  Group world_;
  unsigned seed_;
  Draw draw_;
  Training<float> training_;
  GradBuffers host_;
  Reducer reducer_;
  std::shared_ptr<NotingOrder> hook_;
};

class ArrivalOrderTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ArrivalOrderTest, ::testing::Values(2, 3, 4));

TEST_P(ArrivalOrderTest, DecidesNeitherWhatIsLaunchedNextNorWhatTheAveragesAre) {
  inWorld(GetParam(), [](Group world) {
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      Trained(world, seed).run();
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
  });
}

}  // namespace
}  // namespace unisono
