// PowerSGD: matrices of gradients travel as two narrow factors.
//
//   auto powerSGD = std::make_shared<hooks::PowerSGD>(world, hooks::PowerSGDOptions{.rank = 2});
//   model.reducer().registerCommHook(powerSGD);
//   … train …
//   std::printf("%.1f times fewer elements\n", powerSGD->compression().rate);
//
// Each matrix (the first dimension of a parameter by all others) becomes the product of two of
// `rank` columns, about its nearest ones. What that leaves out of a gradient is added to the next
// one (error feedback), and the factors of a step begin with those of the last (warm start), so
// little is lost over several steps. Infinities and NaN go into no later step.
//
// Its operations are waited for in the hook, one after the other, which keeps their order the same
// on all ranks; all ranks get the same bits.
//
// Thread safety: between steps, for one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "unisono/base/api.hpp"
#include "unisono/ddp/comm_hook.hpp"
#include "unisono/group/group.hpp"

namespace unisono::hooks {

struct PowerSGDOptions {
  /// How many columns the factors have.
  int rank = 1;
  /// How many steps are averaged as they are before; at least 2 with error feedback or warm start,
  /// since buckets are rebuilt after the first.
  std::int64_t startIter = 1000;
  /// A matrix that would not become smaller by this factor goes as it is, as vectors do.
  double minCompressionRate = 2;
  bool errorFeedback = true;
  bool warmStart = true;
  /// Is added to lengths that are divided by.
  double epsilon = 0;
  /// Of the first factors; the same on all ranks.
  std::uint32_t seed = 0;
};

/// How many elements there were in gradients, and how many were sent instead.
struct Compression {
  double rate;
  std::int64_t before;
  std::int64_t after;
};

class UNISONO_API PowerSGD final : public CommHook {
 public:
  /// Throws UsageError for options that make no sense.
  explicit PowerSGD(Group group, PowerSGDOptions options = {});
  ~PowerSGD() override;

  Future run(GradBucket& bucket) override;
  /// Everything begins anew, the count of steps too, so that ranks that are new can take part.
  void useGroup(const Group& group) override;

  /// Steps so far. A training that goes on from where it was stored says so, on all ranks alike.
  std::int64_t iter() const noexcept;
  void setIter(std::int64_t iter) noexcept;
  /// Of all steps since the first that was compressed.
  Compression compression() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono::hooks
