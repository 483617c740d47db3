// Comm hooks: how a full bucket is reduced, where an average of it as it is would not do.
//
//   class SumHook final : public CommHook {
//    public:
//     explicit SumHook(Group group) : group_(std::move(group)) {}
//     Future run(GradBucket& bucket) override {
//       return group_.allReduce(bucket.buffer(), {.async = true})->getFuture();
//     }
//   …
//   reducer.registerCommHook(std::make_shared<SumHook>(world));
//
// A hook is called once for each bucket of a step, in the order of the buckets, which is the same
// on all ranks; never twice at once, and under no lock. It gets the gradients of this rank as they
// are, and returns at once with a Future, whose value, one tensor of as many elements of the same
// type, takes their place: the buffer itself, or another. What it starts on a group it starts on
// all ranks in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/group/group.hpp"
#include "unisono/work/future.hpp"

namespace unisono {

/// A bucket that is full, for as long as a hook looks at it.
class UNISONO_API GradBucket {
 public:
  /// A part of the bucket: a parameter, and where in the buffer its gradient begins, in elements.
  struct Part {
    Tensor parameter;
    std::int64_t offset;
  };

  GradBucket(std::size_t index, std::size_t bucketCount, Tensor buffer, std::vector<Part> parts);

  /// Its place in the order in which buckets are reduced; it changes when buckets are rebuilt.
  std::size_t index() const noexcept { return index_; }
  bool isLast() const noexcept { return index_ + 1 == bucketCount_; }
  /// All gradients in one row.
  const Tensor& buffer() const noexcept { return buffer_; }
  /// Another row in its place, here only: for hooks around other hooks.
  void setBuffer(Tensor buffer);
  /// The gradients one by one: views of the buffer with sizes and strides of their parameters.
  std::vector<Tensor> gradients() const;
  std::vector<Tensor> parameters() const;

 private:
  std::size_t index_;
  std::size_t bucketCount_;
  Tensor buffer_;
  std::vector<Part> parts_;
};

class UNISONO_API CommHook {
 public:
  virtual ~CommHook();
  virtual Future run(GradBucket& bucket) = 0;
  /// The Reducer goes on with another group, see Reducer::resetState(): what the hook starts from
  /// now on it starts there. Nothing, here; the hooks of hooks.hpp begin anew.
  virtual void useGroup(const Group& group);
};

/// Hooks that come with unisono, with c10d's numbers.
enum class BuiltinCommHookType : std::uint8_t {
  ALLREDUCE = 1,      // the average, as without a hook
  FP16_COMPRESS = 2,  // the average of the values as float16: half the bytes of float32
};

/// "ALLREDUCE".
UNISONO_API std::string_view name(BuiltinCommHookType type) noexcept;

/// For buckets that are reduced by `group`.
UNISONO_API std::shared_ptr<CommHook> makeCommHook(BuiltinCommHookType type, Group group);

}  // namespace unisono
