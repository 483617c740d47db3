// RootHost: rank 0's answers to those who want to join its group, or more of its memory.
//
// Thread safety: answer() from one thread at a time, the monitor's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "life/monitor.hpp"
#include "transport/root_record.hpp"
#include "transport/shm/shared_mapping.hpp"

namespace unisono::shm {

class RootHost {
 public:
  RootHost(const std::shared_ptr<SharedMapping>& mapping, RootRecord root, std::string settings)
      : mapping_(mapping), root_(std::move(root)), settings_(std::move(settings)) {}

  Monitor::Answer answer(std::string_view request) const;

 private:
  Monitor::Answer join(SharedMapping& mapping, std::string_view bytes) const;
  std::string objection(const JoinRequest& request) const;
  static std::string claim(RankBlock& block, const JoinRequest& request,
                           const ProcessMark& process);

  std::weak_ptr<SharedMapping> mapping_;
  const RootRecord root_;
  const std::string settings_;
};

/// What `rank` of `size` answers who asks for its inbox; `mapping` is null when the group is gone.
Monitor::Answer giveInbox(SharedMapping* mapping, int rank, int size, std::string_view request);

}  // namespace unisono::shm
