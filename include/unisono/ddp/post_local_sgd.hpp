// PostLocalSGD: after a while gradients are averaged over few ranks only.
//
//   Group host = *world.split(world.rank() / ranksPerHost);
//   model.reducer().registerCommHook(std::make_shared<hooks::PostLocalSGD>(world, host));
//
// The ranks of different subgroups drift apart from then on: average the parameters now and then
// (periodic_average.hpp).
//
// Thread safety: between steps, for one thread at a time.
#pragma once

#include <cstdint>

#include "unisono/base/api.hpp"
#include "unisono/ddp/comm_hook.hpp"
#include "unisono/group/group.hpp"

namespace unisono::hooks {

struct PostLocalSGDOptions {
  /// How many steps are averaged over all ranks.
  std::int64_t startIter = 100;
  /// Whether later ones are averaged over the subgroup; else each rank keeps its own gradients.
  bool averageLater = true;
};

class UNISONO_API PostLocalSGD final : public CommHook {
 public:
  PostLocalSGD(Group group, Group subgroup, PostLocalSGDOptions options = {});
  ~PostLocalSGD() override;

  Future run(GradBucket& bucket) override;
  /// Steps are counted anew. Groups that were made out of one that failed have failed with it: give
  /// another subgroup, too.
  void useGroup(const Group& group) override;
  void useSubgroup(const Group& subgroup);

  /// Steps so far. A training that goes on from where it was stored says so, on all ranks alike.
  std::int64_t iter() const noexcept { return iter_; }
  void setIter(std::int64_t iter) noexcept { iter_ = iter; }

 private:
  Group group_;
  Group subgroup_;
  const PostLocalSGDOptions options_;
  std::int64_t iter_ = 0;
};

}  // namespace unisono::hooks
