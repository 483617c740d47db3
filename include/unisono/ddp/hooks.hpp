// The catalogue of communication hooks: other ways to average a bucket of gradients.
//
//   unisono::DataParallel model(world, params);
//   model.reducer().registerCommHook(unisono::hooks::bf16Compress(world));
//
// Each is made for the group whose ranks train together, and by all of them. What they send, of a
// bucket of n float32 gradients in bytes, beside the 4 n of the plain average:
//
// - fp16Compress, bf16Compress: 2 n. The first has more digits, the second float32's range.
// - quantizePerTensor, quantizePerChannel: n, to everybody else each.
// - PowerSGD (power_sgd.hpp): of a matrix of a rows and b columns 4 r (a + b), for r = 1 or a few.
// - PostLocalSGD (post_local_sgd.hpp): nothing to ranks outside a subgroup, after a while.
//
// All ranks get the same bits, in every run. Each starts one operation for a bucket, or waits for
// those that it starts, so that the order of operations is that of the buckets. They are for
// gradients of real numbers; with others they throw UsageError in the first step, but for
// allreduce() and noop(), which take all.
#pragma once

#include <cstdint>
#include <memory>

#include "unisono/base/api.hpp"
#include "unisono/ddp/comm_hook.hpp"
#include "unisono/group/group.hpp"

namespace unisono::hooks {

/// The average, as without a hook.
UNISONO_API std::shared_ptr<CommHook> allreduce(Group group);

/// Every rank keeps its own gradients: to see what a step takes without communication.
UNISONO_API std::shared_ptr<CommHook> noop();

/// The average of the values as float16, whose largest is 65504, or as bfloat16. They are divided
/// first, so that no sum is out of range where the average is not.
UNISONO_API std::shared_ptr<CommHook> fp16Compress(Group group);
UNISONO_API std::shared_ptr<CommHook> bf16Compress(Group group);

/// `hook` gets the bucket as float16 or bfloat16, and what it gives is converted back.
UNISONO_API std::shared_ptr<CommHook> fp16Wrapper(std::shared_ptr<CommHook> hook);
UNISONO_API std::shared_ptr<CommHook> bf16Wrapper(std::shared_ptr<CommHook> hook);

/// The average of values that are rounded to one of 256 steps between the least and the most of the
/// bucket, 0 among them. Where one of them is infinite or NaN, all become NaN on all ranks.
UNISONO_API std::shared_ptr<CommHook> quantizePerTensor(Group group);
/// The same with steps of their own for every `bucketSize` values. UsageError below 1.
UNISONO_API std::shared_ptr<CommHook> quantizePerChannel(Group group,
                                                         std::int64_t bucketSize = 512);

}  // namespace unisono::hooks
