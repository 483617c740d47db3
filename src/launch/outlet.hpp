// Outlet: what the launcher prints, written as fast as its reader takes it.
//
// Whoever reads our output may be slow, or have stopped: writing to it must not keep the launcher
// from seeing signals and ends of processes. Only what can be written at once is.
//
// Thread safety: for the reactor's thread only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "net/reactor.hpp"

namespace unisono::launch {

class Outlet final : public Watcher {
 public:
  /// Writes to `fd`, which stays the caller's and blocking: others may share it.
  Outlet(Reactor& reactor, int fd);
  ~Outlet() override;
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  /// Appends `text`: whole lines, since those of others come between.
  void push(std::string_view text);

  std::size_t pending() const noexcept { return text_.size() - written_; }

  /// Not 0 once writing has failed (EPIPE: nobody reads any more); what is pushed is dropped then.
  int error() const noexcept { return error_; }

  /// Forgets what has not been written.
  void drop() noexcept;

 private:
  void onReady(bool readable, bool writable) noexcept override;

  Reactor& reactor_;
  const int fd_;
  std::string text_;
  std::size_t written_ = 0;  // so much of it
  bool watched_ = false;
  int error_ = 0;
};

}  // namespace unisono::launch
