// Operations of a soak: random ones whose results every rank can calculate for itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "unisono/group/group.hpp"

namespace unisono::stress {

/// One operation of a group, under way or not yet begun. All that is random comes from its seed, so
/// that the ranks agree.
class SoakOp {
 public:
  struct Limits {
    std::size_t mostBytes = 0;  // of what a rank gives to another one, or to all
    bool mayRegister = true;    // its tensors may lie in registered memory
    bool mustBeAsync = false;
  };
  SoakOp(Group& group, std::uint64_t seed, const Limits& limits);
  ~SoakOp();
  SoakOp(SoakOp&&) noexcept;
  SoakOp& operator=(SoakOp&&) noexcept;

  /// Calls it; done when it returns, unless it is asynchronous.
  void begin();
  /// Waits for its end; whether the result is right, bit for bit, on this rank.
  [[nodiscard]] bool end();

  bool isAsync() const;
  /// "all_reduce of 77 float16, MAX, async, registered".
  std::string describe() const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace unisono::stress
