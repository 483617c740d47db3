// ProcessWorld: ranks that are processes of their own.
//
//   ProcessWorld world(3);
//   const auto thrown = world.outcomes([&](int rank) { … });
//
// A rank is a fork of the test's process, and goes on where that is: all of them run the same
// lines, of this test and of those that follow, but what is inside outcomes() runs in the ranks
// only. What they throw and what they find wrong comes back to the test's process, which tells all
// ranks: they go on together. So a body may use whatever the test has; what it writes there no
// other rank sees.
//
// Ranks live until the last test has ended. One that dies is named, and made anew when it is
// needed.
//
// Thread safety: none, and there may be no thread in the test's process.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/store/store.hpp"

namespace unisono::test {

class ProcessWorld {
 public:
  /// Whether TEST_RANKS=processes is in the environment: worlds of tests are to be of this kind.
  static bool asked();

  /// Whether this process is a rank, and not the test's own.
  static bool isRank();

  explicit ProcessWorld(int size) : size_(size) {}
  int size() const noexcept { return size_; }

  /// Runs `body` once in every rank; what each has thrown, null for nothing: unisono's errors as
  /// they were, others as a runtime_error, and for one that died a DistError (PEER_DEAD). What
  /// expectations a rank has found wrong are failures of the test.
  std::vector<std::exception_ptr> outcomes(const std::function<void(int)>& body) const;

  // Inside outcomes().

  /// A store that the ranks of this call share, for nothing but this call.
  static StorePtr store();
  /// What make() has made for `key` in this rank. It is kept for later calls, until one has failed:
  /// then ranks may be out of step, or gone, and all of them forget everything.
  template <typename T>
  static T& kept(const std::string& key, const std::function<std::shared_ptr<T>()>& make) {
    std::shared_ptr<void>& place = keptAs(key);
    if (!place) {
      place = make();
    }
    return *static_cast<T*>(place.get());
  }

 private:
  static std::shared_ptr<void>& keptAs(const std::string& key);

  const int size_;
};

}  // namespace unisono::test
