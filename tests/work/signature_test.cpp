#include <functional>
#include <gtest/gtest.h>
#include <set>

#include "work/sample_calls.hpp"

namespace unisono {
namespace {

using test::Recording;
using test::TensorMaker;

class SignatureTest : public ::testing::Test {
 protected:
  TensorMaker tensor_;
  Recording api_;
  std::uint64_t last() const { return api_.last.signature(); }
};

TEST_F(SignatureTest, ChangesWithWhatAllRanksMustAgreeOn) {
  const std::vector<std::function<void()>> calls = {
      [&] { api_.allreduce(tensor_({4})); },
      [&] { api_.allreduce(tensor_({5})); },
      [&] { api_.allreduce(tensor_({4}, DType::INT32)); },
      [&] { api_.allreduce(tensor_({4}), {.reduceOp = ReduceOp::MAX}); },
      [&] { api_.allreduceCoalesced(tensor_({4})); },
      [&] {
        api_.allreduceCoalesced({tensor_({4}), tensor_({4})});
      },
      [&] {
        api_.allreduceCoalesced({tensor_({6}), tensor_({2})});
      },
      [&] { api_.broadcast(tensor_({4})); },
      [&] { api_.broadcast(tensor_({4}), {.rootRank = 1}); },
      [&] { api_.reduce(tensor_({4})); },
      [&] { api_.reduce(tensor_({4}), {.rootRank = 1}); },
      [&] { api_.allgather({tensor_.many(2, {4})}, tensor_({4})); },
      [&] {
        api_.allgather({{tensor_({4}), tensor_({5})}}, tensor_({4}));
      },
      [&] { api_.allGatherSingle(tensor_({8}), tensor_({4})); },
      [&] { api_.allGatherSingle(tensor_({6}), tensor_({3})); },
      [&] {
        api_.allgatherCoalesced({{tensor_({4})}, {tensor_({4})}}, tensor_({4}));
      },
      [&] { api_.allGatherSingleCoalesced(tensor_({8}), tensor_({4})); },
      [&] { api_.gather({}, tensor_({4}), {.rootRank = 1}); },
      [&] { api_.gather({}, tensor_({4}), {.rootRank = 2}); },
      [&] { api_.scatter(tensor_({4}), {}, {.rootRank = 1}); },
      [&] { api_.reduceScatter(tensor_({4}), {tensor_.many(2, {4})}); },
      [&] { api_.reduceScatterSingle(tensor_({4}), tensor_({8})); },
      [&] { api_.reduceScatterSingleCoalesced(tensor_({4}), tensor_({8})); },
      [&] { api_.allToAll(tensor_.many(2, {4}), tensor_.many(2, {4})); },
      [&] { api_.allToAllSingle(tensor_({8}), tensor_({8})); },
      [&] { api_.allToAllSingle(tensor_({8}, DType::INT8), tensor_({8}, DType::INT8)); },
      [&] {
        api_.allreduceSparse({tensor_({1, 2}, DType::INT64), tensor_({2}), {10}});
      },
      [&] {
        api_.allreduceSparse({tensor_({1, 2}, DType::INT64), tensor_({2}), {11}});
      },
      [&] { api_.barrier(); },
  };

  std::set<std::uint64_t> seen;
  for (const auto& call : calls) {
    call();
    EXPECT_TRUE(seen.insert(last()).second) << api_.last.describe();
    EXPECT_NE(last(), 0U);
  }
}

TEST_F(SignatureTest, StaysWhenRanksMayDiffer) {
  using Call = std::function<void()>;
  const std::vector<std::pair<Call, Call>> pairs = {
      // Another address, shape, timeout, way to wait, number.
      {[&] { api_.allreduce(tensor_({4})); },
       [&] {
         api_.allreduce(tensor_({2, 2}), {.timeout = std::chrono::seconds(1), .asyncOp = false});
         api_.last.seq = 7;
       }},
      {[&] { api_.allreduce(tensor_({4}), {.reduceOp = ReduceOp::preMulSum(2)}); },
       [&] { api_.allreduce(tensor_({4}), {.reduceOp = ReduceOp::preMulSum(3)}); }},
      // The root has more tensors than the others.
      {[&] { api_.gather({tensor_.many(2, {4})}, tensor_({4})); },
       [&] { api_.gather({}, tensor_({4})); }},
      {[&] { api_.scatter(tensor_({4}), {tensor_.many(2, {4})}); },
       [&] { api_.scatter(tensor_({4}), {}); }},
      // Another rank's own share is of another size.
      {[&] {
         api_.allgather({{tensor_({3}), tensor_({5})}}, tensor_({3}));
       },
       [&] {
         api_.allgather({{tensor_({3}), tensor_({5})}}, tensor_({5}));
       }},
      {[&] {
         api_.reduceScatter(tensor_({3}), {{tensor_({3}), tensor_({5})}});
       },
       [&] {
         api_.reduceScatter(tensor_({5}), {{tensor_({3}), tensor_({5})}});
       }},
      {[&] { api_.allToAllSingle(tensor_({8}), tensor_({6})); },
       [&] {
         api_.allToAllSingle(tensor_({3}), tensor_({4}), {1, 2}, {3, 1});
       }},
      {[&] {
         api_.allToAll({tensor_({1}), tensor_({2})}, {tensor_({1}), tensor_({4})});
       },
       [&] { api_.allToAll(tensor_.many(2, {9}), tensor_.many(2, {9})); }},
      {[&] {
         api_.allreduceSparse({tensor_({1, 2}, DType::INT64), tensor_({2}), {10}});
       },
       [&] {
         api_.allreduceSparse({tensor_({1, 7}, DType::INT64), tensor_({7}), {10}});
       }},
      {[&] { api_.broadcast(tensor_({4})); },
       [&] {
         api_.broadcast({tensor_({4}), tensor_({4})}, {.rootTensor = 1});
       }},
  };

  for (const auto& [one, other] : pairs) {
    one();
    const std::uint64_t first = last();
    const std::string text = api_.last.describe();
    other();
    EXPECT_EQ(first, last()) << text << " and " << api_.last.describe();
  }
}

TEST_F(SignatureTest, OfPointToPointIsNothing) {
  api_.send(tensor_({4}), 1);
  EXPECT_EQ(last(), 0U);
  api_.recv(tensor_({9}), 1, 3);
  EXPECT_EQ(last(), 0U);
}

}  // namespace
}  // namespace unisono
