// World: unisono alone, as measured by the ranks of a job that somebody else has started.
//
// The ranks may be on several hosts. Each makes the same calls in the same order and gets the same
// results, so that all of them come to the same conclusions.
//
// Thread safety: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/group/group.hpp"

#include "bench/collective/contest.hpp"

namespace unisono::bench {

class World final : public Field {
 public:
  explicit World(Group world);
  ~World() override;

  const std::vector<std::string>& names() const override { return names_; }
  Result run(std::size_t which, const Task& task) override;

 private:
  struct Parts;
  const std::vector<std::string> names_{"unisono"};
  Group world_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace unisono::bench
