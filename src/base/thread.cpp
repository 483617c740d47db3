#include "base/thread.hpp"

#include <csignal>
#include <memory>
#include <pthread.h>
#include <system_error>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono {
namespace {

/// Blocks signals while it lives, so that a thread started meanwhile inherits the mask: signals
/// of the process are for the user's threads. A thread's own faults stay open, because the kernel
/// ends the process at once for a blocked one, without asking a crash handler (Python's
/// faulthandler, a sanitizer).
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
      sigdelset(&blocked, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Thread::Thread(const std::string& name, std::function<void()> run) {
  const SignalsBlocked blocked;
  try {
    thread_ = std::make_unique<std::thread>([name, run = std::move(run)] {
      ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
      run();
    });
  } catch (const std::system_error& error) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("cannot start the thread ", name, ": ", error.what()),
                     .hint = "raise the limit on processes (ulimit -u), or free memory"});
  }
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    join();
    thread_ = std::move(other.thread_);
    madeIn_ = other.madeIn_;
  }
  return *this;
}

void Thread::join() noexcept {
  if (thread_ && madeIn_.inChild()) {
    static_cast<void>(thread_.release());  // its destructor would end the process
    return;
  }
  if (thread_ && thread_->joinable()) {
    thread_->join();
  }
  thread_.reset();
}

void Thread::detach() noexcept {
  if (thread_ && !madeIn_.inChild() && thread_->joinable()) {
    thread_->detach();
    thread_.reset();
  }
}

}  // namespace unisono
