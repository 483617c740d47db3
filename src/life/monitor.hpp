// Monitor: the one thread of a process that stands for its life and answers its neighbours.
//
// It holds the life words of the process's ranks, which thereby tell of the death of the process,
// and answers requests that other processes of the host send to its local socket: they know the
// socket's name and a cookie from the store.
//
// Started by the first group; lives as long as the process. A forked child has none of it, and
// gets its own when it needs one.
//
// Thread safety: everything from any thread. Handlers run on the monitor's thread: they must not
// block, and are not called any more once their Offer is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/clock.hpp"
#include "base/fork.hpp"
#include "base/status.hpp"
#include "life/life_word.hpp"
#include "net/local_socket.hpp"

namespace unisono {

class Monitor {
 public:
  /// What a handler answers; the descriptor stays the handler's.
  struct Answer {
    std::string bytes;
    int fd = -1;
  };
  /// Gets what followed the cookie, and who asks.
  using Handler = std::function<Answer(std::string_view request, pid_t from)>;

  /// Withdraws a handler when it goes.
  class Offer {
   public:
    Offer() = default;
    Offer(Monitor& monitor, std::string cookie) : monitor_(&monitor), cookie_(std::move(cookie)) {}
    ~Offer() { withdraw(); }
    Offer(Offer&& other) noexcept;
    Offer& operator=(Offer&& other) noexcept;
    void withdraw() noexcept;

   private:
    Monitor* monitor_ = nullptr;
    std::string cookie_;
    ForkGuard madeIn_;
  };

  /// This process's. Throws DistError (RESOURCE) when it cannot be started.
  static Monitor& instance();

  /// The name of the local socket.
  const std::string& socketName() const noexcept;

  /// From now on `word` tells of the death of this process, until letGo().
  void hold(LifeWord& word);
  void letGo(LifeWord& word) noexcept;

  /// Requests that begin with `cookie` are answered by `handler`.
  [[nodiscard]] Offer offer(std::string cookie, Handler handler);

 private:
  class Impl;
  Monitor();
  ~Monitor() = delete;  // leaked
  void withdraw(const std::string& cookie) noexcept;

  Impl* impl_;
};

/// Asks the process whose monitor listens at `socketName`. `isHopeless` is asked every few
/// milliseconds: a process that was stopped, or dumps its core, does not answer, and the caller may
/// know of reasons not to wait for it. Fails then as when the deadline passes.
Result<LocalMessage> askMonitor(std::string_view socketName, std::string_view cookie,
                                std::string_view request, Deadline deadline,
                                const std::function<bool()>& isHopeless = {});

}  // namespace unisono
