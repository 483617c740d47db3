#include "unisono/work/future.hpp"

#include "base/check.hpp"
#include "work/completion.hpp"
#include "work/wait_timeout.hpp"

namespace unisono {

using detail::Callbacks;
using detail::Completion;

Future::Future() : state_(std::make_shared<Completion>()) {}
Future::Future(std::shared_ptr<Completion> state) : state_(std::move(state)) {}
Future::~Future() = default;
Future::Future(const Future&) = default;
Future& Future::operator=(const Future&) = default;
Future::Future(Future&&) noexcept = default;
Future& Future::operator=(Future&&) noexcept = default;

Future Future::ready(TensorList value) {
  Future future;
  future.setValue(std::move(value));
  return future;
}

Future Future::failed(std::exception_ptr error) {
  Future future;
  future.setError(std::move(error));
  return future;
}

void Future::setValue(TensorList value) {
  Callbacks callbacks;
  state_->complete(nullptr, std::move(value), &callbacks);
  detail::runCallbacks(std::move(callbacks));
}

void Future::setError(std::exception_ptr error) {
  UNISONO_CHECK(error != nullptr, "a future cannot fail without an error");
  Callbacks callbacks;
  state_->complete(std::move(error), {}, &callbacks);
  detail::runCallbacks(std::move(callbacks));
}

bool Future::done() const noexcept {
  return state_->isDone();
}

std::exception_ptr Future::exception() const {
  return state_->error();
}

void Future::wait(std::chrono::milliseconds timeout) const {
  if (!state_->isDone()) {
    const detail::WaitTimeout limit(timeout);
    const auto outcome = state_->await(
        limit.deadline(), [] { return "the value of a future"; }, state_->help());
    if (outcome == Completion::Outcome::EXPIRED) {
      limit.fail("wait", std::nullopt);
    }
    UNISONO_CHECK(outcome == Completion::Outcome::DONE, "the wait for a future was aborted");
  }
  if (state_->hasFailed()) {
    std::rethrow_exception(state_->error());
  }
}

const TensorList& Future::value() const {
  UNISONO_CHECK(done(), "the value of a future was asked for before it is done");
  if (state_->hasFailed()) {
    std::rethrow_exception(state_->error());
  }
  return state_->value();
}

void Future::addCallback(std::function<void(const Future&)> callback) const {
  // The callback is let go when it has run, and the cycle through state_ with it.
  state_->onDone([self = *this, callback = std::move(callback)] { callback(self); });
}

Future Future::then(std::function<TensorList(const Future&)> next) const {
  Future derived;
  derived.state_->setHelp(state_->help());
  addCallback([derived, next = std::move(next)](const Future& done) mutable {
    TensorList value;
    try {
      value = next(done);
    } catch (...) {
      derived.setError(std::current_exception());
      return;
    }
    derived.setValue(std::move(value));
  });
  return derived;
}

}  // namespace unisono
