#include "net/run_on.hpp"

#include <exception>

#include "base/mutex.hpp"
#include "base/wait.hpp"

namespace unisono {

void runOn(Reactor& reactor, const std::function<void()>& task) {
  Mutex mutex;
  CondVar changed;
  bool done = false;
  std::exception_ptr failure;
  reactor.post([&] {
    std::exception_ptr thrown;
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
    const MutexLock lock(mutex);
    failure = thrown;
    done = true;
    changed.notifyAll();
  });
  const MutexLock lock(mutex);
  CondWaitable on(changed, mutex);
  static_cast<void>(
      waitUntil([&] { return done; },
                {.deadline = Deadline::never(), .subject = {}, .interruptible = false}, on));
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace unisono
