// Channel: a pipe through which a rank prints, read on a reactor.
//
// Thread safety: for the reactor's thread only.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "launch/line_splitter.hpp"
#include "net/reactor.hpp"

namespace unisono::launch {

class Channel final : public Watcher {
 public:
  /// Reads from `pipe`. All bytes go to `file` (none if empty) as they are, and line by line to
  /// `onLine`. Throws DistError (RESOURCE) when the file cannot be made.
  Channel(Reactor& reactor, UniqueFd pipe, const std::string& file, LineSplitter::OnLine onLine);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  bool isOpen() const noexcept { return pipe_.valid(); }

  /// Stops or continues to read; whoever prints more waits meanwhile.
  void pause(bool paused);

  /// Takes what is in the pipe already, and reads no more.
  void close() noexcept;

 private:
  enum class Got : bool { NOTHING_NOW, SOMETHING };
  Got readOnce() noexcept;
  void end() noexcept;
  void onReady(bool readable, bool writable) noexcept override;

  Reactor& reactor_;
  UniqueFd pipe_;
  UniqueFd file_;
  LineSplitter splitter_;
  const LineSplitter::OnLine onLine_;
};

}  // namespace unisono::launch
