// CoalescingScope: operations that are collected, and started together.
//
//   CoalescingScope batch = group.startCoalescing();
//   group.send(mine, next);
//   group.recv(theirs, previous);
//   batch.end()->wait();
//
// What is called on the group between start and end, for that kind of device, is checked at once
// but started by end(). The works it returns are all the same one, which ends with the batch; to
// wait for it before end() is refused. A batch is one operation: it has one number.
#pragma once

#include <memory>

#include "unisono/base/api.hpp"
#include "unisono/work/work.hpp"

namespace unisono {

struct GroupState;

class UNISONO_API CoalescingScope {
 public:
  /// Ends a scope that end() has not: nothing is started, and its work fails.
  ~CoalescingScope();
  CoalescingScope(CoalescingScope&&) noexcept;
  CoalescingScope& operator=(CoalescingScope&&) = delete;

  /// Starts what was collected. UsageError when called twice.
  WorkPtr end();

 private:
  friend class ProcessGroup;
  explicit CoalescingScope(std::shared_ptr<GroupState> group);
  std::shared_ptr<GroupState> group_;  // null once ended
};

}  // namespace unisono
