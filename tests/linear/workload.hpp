// Workload: a client that makes random calls on a few keys, and writes down what it was told.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "unisono/store/store.hpp"

#include "base/random.hpp"
#include "linear/history.hpp"

namespace unisono::linear {

struct WorkloadOptions {
  int client = 0;
  std::uint64_t seed = 0;
  std::size_t keys = 5;
  /// Whether set, append and push have happened when they return. If not, they have when the next
  /// call that is answered ends.
  bool synchronous = true;
  std::function<std::int64_t()> clock;
};

class Workload {
 public:
  explicit Workload(WorkloadOptions options);

  /// Makes one call. False when the store is lost: the next needs another one.
  bool oneCall(Store& store);

  /// What happened; to be called once, at the end.
  History take();

 private:
  Event plan();
  void perform(Store& store, Event& event);
  void look(Store& store, Event& event);
  std::string someKey();
  std::vector<std::string> allKeys() const;
  std::string newValue();
  std::uint64_t below(std::uint64_t limit) { return rng_.next() % limit; }
  void settle(std::int64_t now);

  const WorkloadOptions options_;
  SeededRng rng_;
  History history_;
  std::vector<std::size_t> unsettled_;  // writes that have returned, but may not have happened
  std::int64_t values_ = 0;
};

}  // namespace unisono::linear
