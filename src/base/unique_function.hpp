// UniqueFunction: a callable that is moved, never copied (the library's is C++23).
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/check.hpp"

namespace unisono {

template <typename Signature>
class UniqueFunction;

template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;

  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, UniqueFunction> &&
           std::is_invocable_r_v<R, F&, Args...>)
      UniqueFunction(F&& function)  // NOLINT: implicit by design, as std::function
      : callable_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(function))) {}

  explicit operator bool() const noexcept { return callable_ != nullptr; }
  R operator()(Args... args) {
    UNISONO_DCHECK(callable_ != nullptr);
    return callable_->call(std::forward<Args>(args)...);
  }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual R call(Args... args) = 0;
  };
  template <typename F>
  struct Holder final : Callable {
    explicit Holder(F f) : function(std::move(f)) {}
    R call(Args... args) override {
      if constexpr (std::is_void_v<R>) {
        std::invoke(function, std::forward<Args>(args)...);
      } else {
        return std::invoke(function, std::forward<Args>(args)...);
      }
    }
    F function;
  };
  std::unique_ptr<Callable> callable_;
};

}  // namespace unisono
