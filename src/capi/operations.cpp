// Operations of unisono.h: each finds the tensors that its arguments mean, and hands them on.
#include <limits>
#include <vector>

#include "capi/error.hpp"
#include "capi/handles.hpp"

namespace unisono::capi {
namespace {

/// A call while it is being put together.
class Call {
 public:
  Call(unisono_group* group, unisono_dtype dtype, const unisono_call_options* options,
       unisono_work** work)
      : handle_(given(group, "group")), dtype_(dtypeOf(dtype)), work_(work) {
    const unisono_call_options all = known(options, unisono_call_options UNISONO_CALL_OPTIONS);
    options_.timeout = timeoutOf(all.timeout_ms, kUnsetTimeout);
    options_.tag = all.tag;
    options_.async = work != nullptr;
    factor_ = all.factor;
  }

  Call& reducing(unisono_op op) {
    UNISONO_CHECK(op >= UNISONO_SUM && op <= UNISONO_PREMUL_SUM, static_cast<int>(op),
                  " is no unisono_op");
    options_.op = op == UNISONO_PREMUL_SUM ? ReduceOp::preMulSum(factor_)
                                           : ReduceOp(static_cast<RedOpType>(op));
    return *this;
  }
  Call& at(int root) noexcept {
    options_.root = root;
    return *this;
  }

  std::size_t size() const noexcept { return static_cast<std::size_t>(handle_.group.size()); }
  bool isRoot() const noexcept { return handle_.group.rank() == options_.root; }

  /// Operations do not write to their inputs, so const is cast away here only.
  Tensor tensor(const void* data, std::size_t count) const {
    UNISONO_CHECK(count <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()),
                  count, " elements are more than there can be");
    return {const_cast<void*>(data), dtype_, Dims(static_cast<std::int64_t>(count))};
  }
  /// As many for each rank, one after the other.
  Tensor forEachRank(const void* data, std::size_t count) const {
    std::size_t all = 0;
    UNISONO_CHECK(!__builtin_mul_overflow(count, size(), &all), count,
                  " elements for each rank are more than there can be");
    return tensor(data, all);
  }
  /// The same as a list.
  std::vector<Tensor> shares(const void* data, std::size_t count) const {
    const Tensor whole = forEachRank(data, count);
    std::vector<Tensor> list;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      list.push_back(
          slice(whole, static_cast<std::int64_t>(rank * count), static_cast<std::int64_t>(count)));
    }
    return list;
  }
  std::vector<Tensor> list(const unisono_block* blocks) const {
    UNISONO_CHECK(blocks != nullptr, "the list of blocks is NULL");
    std::vector<Tensor> list;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      list.push_back(tensor(blocks[rank].data, blocks[rank].count));
    }
    return list;
  }

  /// gather and scatter take blocks of one size only, as c10d's do; those of any sizes go by
  /// all_to_all, in which all but the root give or take nothing.
  std::vector<Tensor> nothing() const { return std::vector<Tensor>(size(), tensor(nullptr, 0)); }
  std::vector<Tensor> onlyForRoot(const void* data, std::size_t count) const {
    std::vector<Tensor> list = nothing();
    UNISONO_CHECK(options_.root >= 0 && options_.root < handle_.group.size(), "there is no rank ",
                  options_.root, " that could be the root");
    list[static_cast<std::size_t>(options_.root)] = tensor(data, count);
    return list;
  }

  struct Extent {
    std::size_t rows;
    std::size_t width;
  };
  SparseTensor rows(const std::int64_t* places, const void* values, Extent extent,
                    std::int64_t size) const {
    UNISONO_CHECK(extent.width > 0, "a row has no elements");
    std::size_t all = 0;
    UNISONO_CHECK(!__builtin_mul_overflow(extent.rows, extent.width, &all), extent.rows,
                  " rows of ", extent.width, " elements are more than there can be");
    static_cast<void>(tensor(values, all));  // which checks it
    const auto count = static_cast<std::int64_t>(extent.rows);
    const auto width = static_cast<std::int64_t>(extent.width);
    return {.indices = {const_cast<std::int64_t*>(places), DType::INT64, {1, count}},
            .values = {const_cast<void*>(values), dtype_, {count, width}},
            .sizes = {size, width}};
  }

  /// Makes the call: `start(group, options)` on the group gives its work.
  template <typename Start>
  WorkPtr run(Start start) {
    auto begun = work_ == nullptr ? nullptr : std::make_unique<unisono_work>();
    WorkPtr done = start(handle_.group, options_);
    if (begun) {
      begun->work = done;
      *work_ = begun.release();
    }
    return done;
  }

 private:
  static DType dtypeOf(unisono_dtype dtype) {
    UNISONO_CHECK(dtype >= 0 && dtype < kDTypeCount, static_cast<int>(dtype),
                  " is no unisono_dtype");
    return static_cast<DType>(dtype);
  }

  unisono_group& handle_;
  const DType dtype_;
  unisono_work** const work_;
  CallOptions options_;
  double factor_ = 1.0;
};
static_assert(static_cast<int>(DType::COMPLEX128) == UNISONO_COMPLEX128);
static_assert(static_cast<int>(DType::UINT8) == UNISONO_UINT8);
static_assert(static_cast<int>(RedOpType::PREMUL_SUM) == UNISONO_PREMUL_SUM);

}  // namespace
}  // namespace unisono::capi

using namespace unisono::capi;  // NOLINT: this file is the outside of that namespace

unisono_status unisono_all_reduce(unisono_group* group, void* data, size_t count,
                                  unisono_dtype dtype, unisono_op op,
                                  const unisono_call_options* options, unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor values = call.tensor(data, count);
    call.reducing(op).run([&](auto& on, auto& how) { return on.allReduce(values, how); });
  });
}

unisono_status unisono_all_reduce_sparse(unisono_group* group, const int64_t* places,
                                         const void* values, size_t count, size_t width,
                                         int64_t size, unisono_dtype dtype,
                                         const unisono_call_options* options,
                                         unisono_bytes* sum_places, unisono_bytes* sum_values) {
  return guarded([&] {
    given(sum_places, "sum_places");
    given(sum_values, "sum_values");
    Call call(group, dtype, options, nullptr);
    unisono::SparseTensor mine = call.rows(places, values, {count, width}, size);
    const unisono::WorkPtr work = call.run([&](auto& on, auto& how) {
      return on.processGroup().allreduceSparse(std::move(mine),
                                               {.timeout = how.timeout, .asyncOp = false});
    });
    work->wait();
    const unisono::TensorList sum = work->result();
    unisono_bytes found = copyOf(sum[0].data(), sum[0].bytes());
    try {
      *sum_values = copyOf(sum[1].data(), sum[1].bytes());
    } catch (...) {
      unisono_bytes_free(&found);
      throw;
    }
    *sum_places = found;
  });
}

unisono_status unisono_reduce(unisono_group* group, void* data, size_t count, unisono_dtype dtype,
                              unisono_op op, int root, const unisono_call_options* options,
                              unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor values = call.tensor(data, count);
    call.reducing(op).at(root).run([&](auto& on, auto& how) { return on.reduce(values, how); });
  });
}

unisono_status unisono_broadcast(unisono_group* group, void* data, size_t count,
                                 unisono_dtype dtype, int root, const unisono_call_options* options,
                                 unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor values = call.tensor(data, count);
    call.at(root).run([&](auto& on, auto& how) { return on.broadcast(values, how); });
  });
}

unisono_status unisono_all_gather(unisono_group* group, const void* mine, size_t count, void* all,
                                  unisono_dtype dtype, const unisono_call_options* options,
                                  unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor give = call.tensor(mine, count);
    const unisono::Tensor take = call.forEachRank(all, count);
    call.run([&](auto& on, auto& how) { return on.allGather(give, take, how); });
  });
}

unisono_status unisono_all_gather_blocks(unisono_group* group, const void* mine, size_t count,
                                         const unisono_block* all, unisono_dtype dtype,
                                         const unisono_call_options* options, unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor give = call.tensor(mine, count);
    const auto take = call.list(all);
    call.run([&](auto& on, auto& how) { return on.allGather(give, take, how); });
  });
}

unisono_status unisono_gather(unisono_group* group, const void* mine, size_t count, void* all,
                              unisono_dtype dtype, int root, const unisono_call_options* options,
                              unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor give = call.at(root).tensor(mine, count);
    const auto take = call.isRoot() ? call.shares(all, count) : std::vector<unisono::Tensor>();
    call.run([&](auto& on, auto& how) { return on.gather(give, take, how); });
  });
}

unisono_status unisono_gather_blocks(unisono_group* group, const void* mine, size_t count,
                                     const unisono_block* all, unisono_dtype dtype, int root,
                                     const unisono_call_options* options, unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const auto give = call.at(root).onlyForRoot(mine, count);
    const auto take = call.isRoot() ? call.list(all) : call.nothing();
    call.run([&](auto& on, auto& how) { return on.allToAll(give, take, how); });
  });
}

unisono_status unisono_scatter(unisono_group* group, const void* all, void* mine, size_t count,
                               unisono_dtype dtype, int root, const unisono_call_options* options,
                               unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor take = call.at(root).tensor(mine, count);
    const auto give = call.isRoot() ? call.shares(all, count) : std::vector<unisono::Tensor>();
    call.run([&](auto& on, auto& how) { return on.scatter(give, take, how); });
  });
}

unisono_status unisono_scatter_blocks(unisono_group* group, const unisono_block* all, void* mine,
                                      size_t count, unisono_dtype dtype, int root,
                                      const unisono_call_options* options, unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const auto take = call.at(root).onlyForRoot(mine, count);
    const auto give = call.isRoot() ? call.list(all) : call.nothing();
    call.run([&](auto& on, auto& how) { return on.allToAll(give, take, how); });
  });
}

unisono_status unisono_reduce_scatter(unisono_group* group, const void* all, void* part,
                                      size_t count, unisono_dtype dtype, unisono_op op,
                                      const unisono_call_options* options, unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor give = call.forEachRank(all, count);
    const unisono::Tensor take = call.tensor(part, count);
    call.reducing(op).run([&](auto& on, auto& how) { return on.reduceScatter(give, take, how); });
  });
}

unisono_status unisono_reduce_scatter_blocks(unisono_group* group, const unisono_block* all,
                                             void* part, size_t count, unisono_dtype dtype,
                                             unisono_op op, const unisono_call_options* options,
                                             unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const auto give = call.list(all);
    const unisono::Tensor take = call.tensor(part, count);
    call.reducing(op).run([&](auto& on, auto& how) { return on.reduceScatter(give, take, how); });
  });
}

unisono_status unisono_all_to_all(unisono_group* group, const void* give, void* take, size_t count,
                                  unisono_dtype dtype, const unisono_call_options* options,
                                  unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor from = call.forEachRank(give, count);
    const unisono::Tensor into = call.forEachRank(take, count);
    call.run([&](auto& on, auto& how) { return on.allToAll(from, into, how); });
  });
}

unisono_status unisono_all_to_all_blocks(unisono_group* group, const unisono_block* give,
                                         const unisono_block* take, unisono_dtype dtype,
                                         const unisono_call_options* options, unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const auto from = call.list(give);
    const auto into = call.list(take);
    call.run([&](auto& on, auto& how) { return on.allToAll(from, into, how); });
  });
}

unisono_status unisono_send(unisono_group* group, const void* data, size_t count,
                            unisono_dtype dtype, int to, const unisono_call_options* options,
                            unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor values = call.tensor(data, count);
    call.run([&](auto& on, auto& how) { return on.send(values, to, how); });
  });
}

unisono_status unisono_recv(unisono_group* group, void* data, size_t count, unisono_dtype dtype,
                            int from, int* source, const unisono_call_options* options,
                            unisono_work** work) {
  return guarded([&] {
    Call call(group, dtype, options, work);
    const unisono::Tensor values = call.tensor(data, count);
    const auto sender = from == UNISONO_ANY_SOURCE ? std::nullopt : std::optional(from);
    const unisono::WorkPtr received =
        call.run([&](auto& on, auto& how) { return on.recv(values, sender, how); });
    if (source != nullptr) {
      *source = received->sourceRank();
    }
  });
}

unisono_status unisono_barrier(unisono_group* group, const unisono_call_options* options,
                               unisono_work** work) {
  return guarded([&] {
    Call call(group, UNISONO_UINT8, options, work);
    call.run([&](auto& on, auto& how) { return on.barrier(how); });
  });
}

unisono_status unisono_monitored_barrier(unisono_group* group, int wait_all_ranks,
                                         const unisono_call_options* options) {
  return guarded([&] {
    Call call(group, UNISONO_UINT8, options, nullptr);
    call.run([&](auto& on, auto& how) {
      on.monitoredBarrier(how, wait_all_ranks != 0);
      return nullptr;
    });
  });
}

unisono_status unisono_batch_begin(unisono_group* group) {
  return guarded([&] {
    unisono_group& one = given(group, "group");
    const unisono::MutexLock lock(one.mutex);
    UNISONO_CHECK(!one.batch, "a batch has begun already");
    one.batch.emplace(one.group.processGroup().startCoalescing());
  });
}

unisono_status unisono_batch_end(unisono_group* group, unisono_work** work) {
  return guarded([&] {
    unisono_group& one = given(group, "group");
    std::optional<unisono::CoalescingScope> batch;
    {
      const unisono::MutexLock lock(one.mutex);
      UNISONO_CHECK(one.batch, "no batch has begun");
      batch.emplace(std::move(*one.batch));
      one.batch.reset();
    }
    auto begun = work == nullptr ? nullptr : std::make_unique<unisono_work>();
    const unisono::WorkPtr all = batch->end();
    if (begun) {
      begun->work = all;
      *work = begun.release();
    } else {
      all->wait();
    }
  });
}
