// Inlet: gives what comes on a descriptor to several pipes, to each all of it.
//
// More is read once all have taken what was read before: who does not read holds up the others,
// but fills nobody's memory. Pipes whose reader has gone are forgotten.
//
// Thread safety: for the reactor's thread only.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.hpp"
#include "net/reactor.hpp"

namespace unisono::launch {

class Inlet final : public Watcher {
 public:
  /// Reads from `fd`, which stays the caller's and blocking: others may share it.
  Inlet(Reactor& reactor, int fd);
  ~Inlet() override;
  Inlet(const Inlet&) = delete;
  Inlet& operator=(const Inlet&) = delete;

  /// Gives what comes from now on to `pipe`, too, which is closed after the last of it.
  void add(UniqueFd pipe);

  /// Closes all pipes.
  void clear() noexcept;

 private:
  struct Branch final : Watcher {
    Branch(Inlet& owner, UniqueFd end) : inlet(owner), pipe(std::move(end)) {}
    void onReady(bool, bool) noexcept override { inlet.flush(*this); }
    Inlet& inlet;
    UniqueFd pipe;
    std::string pending = {};
  };

  void onReady(bool readable, bool writable) noexcept override;
  void flush(Branch& branch) noexcept;
  void update() noexcept;

  Reactor& reactor_;
  const int fd_;
  bool watched_ = false;
  bool ended_ = false;
  std::list<Branch> branches_;
};

}  // namespace unisono::launch
