// What is special between ranks that share nothing but messages; for what all operations do with
// tensors see operations_test.cpp.
#include "backend/native/link_executor.hpp"

#include <gmock/gmock.h>
#include <new>
#include <numeric>
#include <utility>

#include "backend/any_rank.hpp"
#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/loopback_world.hpp"

namespace unisono {
namespace {

using test::LinkRank;
using test::LoopbackWorld;
using test::textOf;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

struct Shape {
  int ranks;
  const char* forced;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    all.push_back({ranks, ""});
    all.push_back({ranks, test::kLinksForLarge});
  }
  return all;
}

class LinkExecutorTest : public ::testing::TestWithParam<Shape> {
 protected:
  const int n_ = GetParam().ranks;
  const links::LinkSelector selector_ = test::linksForcedTo(GetParam().forced);
  LoopbackWorld world_{GetParam().ranks, {.room = 0}};

  std::vector<std::exception_ptr> outcomes(const std::function<void(LinkRank&)>& body) {
    std::vector<int> globalRanks(static_cast<std::size_t>(n_));
    std::iota(globalRanks.begin(), globalRanks.end(), 10);
    return world_.outcomes([&](Communicator& comm) {
      LinkRank rank(comm, selector_, globalRanks);
      body(rank);
    });
  }
  void run(const std::function<void(LinkRank&)>& body) {
    for (const std::exception_ptr& thrown : outcomes(body)) {
      ASSERT_EQ(textOfThrown(thrown), "");
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, LinkExecutorTest, ::testing::ValuesIn(shapes()),
                         [](const auto& shape) {
                           return str(shape.param.ranks, *shape.param.forced == 0 ? "" : "Large");
                         });

TEST_P(LinkExecutorTest, SumsSparseTensors) {
  run([&](LinkRank& rank) {
    // Row 9 comes from everybody; row r from rank r, which has r + 1 entries of it.
    std::vector<std::int64_t> indices(static_cast<std::size_t>(rank.rank()) + 2, rank.rank());
    indices[0] = 9;
    std::vector<int> values(indices.size(), 1);
    const auto entries = static_cast<std::int64_t>(indices.size());
    rank.allreduceSparse(
        {Tensor(indices.data(), DType::INT64, {1, entries}), Tensor(values), Dims{10}});

    ASSERT_EQ(rank.result.size(), 2U);
    const auto count = static_cast<std::size_t>(rank.result[1].numel());
    ASSERT_EQ(count, static_cast<std::size_t>(n_) + 1);
    const auto* places = rank.result[0].dataAs<std::int64_t>();
    const int* sums = rank.result[1].dataAs<int>();
    for (int i = 0; i < n_; ++i) {
      EXPECT_EQ(places[i], i);
      EXPECT_EQ(sums[i], i + 1);
    }
    EXPECT_EQ(places[n_], 9);
    EXPECT_EQ(sums[n_], n_);
  });
}

TEST_P(LinkExecutorTest, RefusesASparseTensorOnAllRanksAndStaysUsable) {
  const auto thrown = outcomes([&](LinkRank& rank) {
    std::vector<std::int64_t> indices{rank.rank() == n_ - 1 ? 12 : 1};
    std::vector<int> values{1};
    const std::string text = textOf<DistBackendError>([&] {
      rank.allreduceSparse(
          {Tensor(indices.data(), DType::INT64, {1, 1}), Tensor(values), Dims{10}});
    });
    EXPECT_THAT(text, AllOf(HasSubstr("the index 12"), HasSubstr("[USAGE]"),
                            HasSubstr(str("culprits=[", 10 + n_ - 1, "]"))));
    rank.barrier();
  });
  EXPECT_THAT(thrown, Each(nullptr));
}

TEST_P(LinkExecutorTest, EndsTheGroupWhenRanksCallDifferentThings) {
  if (n_ == 1) {
    return;
  }
  const auto thrown = outcomes([&](LinkRank& rank) {
    std::vector<int> data(rank.rank() == 0 ? 8 : 9);
    rank.allreduce({Tensor(data)});
    rank.barrier();
  });
  for (const std::exception_ptr& each : thrown) {
    EXPECT_THAT(textOfThrown(each), HasSubstr("[MISMATCH]"));
  }
}

TEST_P(LinkExecutorTest, DoesNotKnowMessages) {
  LinkExecutor executor(world_[0], selector_, {0});
  CollectiveArgs args;
  args.type = OpType::SEND;
  EXPECT_THAT(textOf<NotSupportedError>([&] { executor.run(args, 1s); }),
              HasSubstr("does not support send"));
}

/// Has no memory: for beginning an operation once, or for what is sent.
class PoorCommunicator final : public Communicator {
 public:
  explicit PoorCommunicator(bool whenBeginning) : Communicator(0, 2), begins_(!whenBeginning) {}
  void end(bool done) noexcept override { (done ? finished : unfinished) += 1; }
  void transfer(std::span<const SendTo> /*out*/, std::span<const RecvFrom> /*in*/) override {
    throw std::bad_alloc();
  }
  int begun = 0;
  int finished = 0;
  int unfinished = 0;

 protected:
  void open(const Call& /*call*/) override {
    if (!std::exchange(begins_, true)) {
      throw std::bad_alloc();
    }
    begun += 1;
  }

 private:
  bool begins_;
};

TEST(LinkExecutorMemoryTest, EndsTheGroupAndSaysWhatTheMemoryWasFor) {
  for (const bool whenBeginning : {false, true}) {
    PoorCommunicator comm(whenBeginning);
    const links::LinkSelector selector;
    LinkExecutor executor(comm, selector, {4, 7});
    std::vector<float> data(10);
    CollectiveArgs args;
    args.type = OpType::ALLREDUCE;
    args.outputs = Tensor(data);

    EXPECT_THAT(textOf<DistBackendError>([&] { executor.run(args, 1s); }),
                AllOf(HasSubstr("rank 4 has no memory left for all_reduce(float32[10], SUM)"),
                      HasSubstr("[RESOURCE]")));
    EXPECT_EQ(comm.begun, 1);
    EXPECT_EQ(comm.finished, 0);
    EXPECT_EQ(comm.unfinished, 1);
  }
}

}  // namespace
}  // namespace unisono
