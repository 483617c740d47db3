// Status and Result: how code on an event loop says what happened.
//
// A loop thread serves everybody, so nothing there throws; a closed peer is an
// ordinary outcome, and [[nodiscard]] makes sure that somebody looks at it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/check.hpp"

namespace unisono {

/// Fine, or a reason with a sentence.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Reason reason, std::string text) : failure_(Failure{reason, std::move(text)}) {}

  static Status ok() { return {}; }

  bool isOk() const noexcept { return !failure_.has_value(); }
  Reason reason() const { return failure_.value().reason; }
  const std::string& text() const { return failure_.value().text; }

 private:
  struct Failure {
    Reason reason;
    std::string text;
  };
  std::optional<Failure> failure_;
};

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design, as in `return 5;`
  Result(Status failure) : failure_(std::move(failure)) { UNISONO_DCHECK(!failure_.isOk()); }

  bool isOk() const noexcept { return value_.has_value(); }
  T& value() { return value_.value(); }
  const T& value() const { return value_.value(); }
  const Status& failure() const noexcept { return failure_; }

 private:
  std::optional<T> value_;
  Status failure_;
};

}  // namespace unisono
