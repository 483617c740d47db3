#include "explore/fiber.hpp"

#include <cstdint>
#include <cxxabi.h>
#include <utility>

namespace unisono::explore {

Fiber::Fiber() : stack_(new std::byte[kStack]) {}

void Fiber::begin(std::function<void()> body) {
  body_ = std::move(body);
  fresh_ = true;
  handling_ = {};
  ::getcontext(&entry_);
  entry_.uc_stack.ss_sp = stack_.get();
  entry_.uc_stack.ss_size = kStack;
  entry_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  // makecontext() passes numbers of 32 bits only.
  ::makecontext(&entry_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                static_cast<unsigned int>(self), static_cast<unsigned int>(self >> 32U));
}

void Fiber::enter(unsigned int low, unsigned int high) {
  auto* self = reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32U) | low);
  self->body_();
  std::longjmp(self->back_, 1);
}

// Only the first entry goes by setcontext(): it asks the kernel for the signal mask, which takes
// longer than a whole step of a run.
void Fiber::resume() {
  swapHandling();
  if (_setjmp(back_) == 0) {
    if (std::exchange(fresh_, false)) {
      ::setcontext(&entry_);
    }
    std::longjmp(here_, 1);
  }
  swapHandling();
}

void Fiber::leave() {
  if (_setjmp(here_) == 0) {
    std::longjmp(back_, 1);
  }
}

void Fiber::swapHandling() {
  // The Itanium C++ ABI says what is there.
  std::swap(handling_, *reinterpret_cast<Handling*>(abi::__cxa_get_globals()));
}

}  // namespace unisono::explore
