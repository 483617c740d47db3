// KeySearch: the search for an order of calls as the model does them, one after the other.
#pragma once

#include <string>
#include <vector>

#include "linear/demand.hpp"
#include "linear/model.hpp"
#include "linear/search.hpp"

namespace unisono::linear {

class KeySearch : public Search {
 public:
  explicit KeySearch(const std::vector<const Event*>& events);

 private:
  KeySearch(const std::vector<const Event*>& events, Demand demand);

  bool agrees(const Event& look) const override { return linear::agrees(state_, look); }
  bool enter(std::size_t lane, std::size_t way) override;
  void leave(std::size_t lane) override;
  std::uint64_t hash() const override { return state_.hash(); }
  const Event* impossible() const override { return demand_.impossible(); }
  std::string hint() const override;

  Demand demand_;
  State state_;
  std::vector<State> before_;  // each call

  // The first call that was refused where the search came furthest, and the state that it would
  // have changed before all had been told of it.
  const Event* refusedNear_ = nullptr;
  const Event* refused_ = nullptr;
  State refusedState_;
};

}  // namespace unisono::linear
