// Errors at the border to PyTorch: ours become those that torch.distributed knows, by type and with
// our one line; those of PyTorch's stores become ours.
//
// PyTorch shows its own classes as Python exceptions in every place where an error can come out (a
// call, Work.wait(), a future); of other classes some of these places know nothing.
#pragma once

#include <c10/util/Exception.h>
#include <exception>
#include <string>

#include "unisono/base/error.hpp"

namespace unisono::plugin {

/// Throws what `error` is for PyTorch. What is not ours, a Python exception for one, passes as it
/// is.
[[noreturn]] inline void rethrowForTorch(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const NotSupportedError& ours) {
    C10_THROW_ERROR(NotImplementedError, ours.what());
  } catch (const DistQueueEmptyError& ours) {
    C10_THROW_ERROR(DistQueueEmptyError, ours.what());
  } catch (const DistStoreError& ours) {
    C10_THROW_ERROR(DistStoreError, ours.what());
  } catch (const DistNetworkError& ours) {
    C10_THROW_ERROR(DistNetworkError, ours.what());
  } catch (const DistBackendError& ours) {
    C10_THROW_ERROR(DistBackendError, ours.what());
  } catch (const DistTimeoutError& ours) {  // torch.distributed has no class for these
    C10_THROW_ERROR(DistBackendError, ours.what());
  } catch (const DistError& ours) {
    C10_THROW_ERROR(DistError, ours.what());
  }
}

/// The same as a value; null for null.
inline std::exception_ptr errorForTorch(const std::exception_ptr& error) {
  if (!error) {
    return nullptr;
  }
  try {
    rethrowForTorch(error);
  } catch (...) {
    return std::current_exception();
  }
}

/// Does `action` for PyTorch.
template <typename Action>
decltype(auto) forTorch(Action&& action) {
  try {
    return action();
  } catch (const DistError&) {
    rethrowForTorch(std::current_exception());
  }
}

/// Does `action` with a store of PyTorch's: what that throws, we throw as our stores would.
template <typename Action>
decltype(auto) askingTorch(const char* op, Action&& action) {
  const auto facts = [op](Reason reason, const std::string& text) {
    return ErrorFacts{
        .reason = reason, .what = "PyTorch's store: " + text.substr(0, text.find('\n')), .op = op};
  };
  try {
    return action();
  } catch (const c10::DistQueueEmptyError& error) {
    throw DistQueueEmptyError(facts(Reason::TIMEOUT, error.what_without_backtrace()));
  } catch (const c10::DistNetworkError& error) {
    throw DistNetworkError(facts(Reason::STORE_LOST, error.what_without_backtrace()));
  } catch (const c10::NotImplementedError& error) {
    throw NotSupportedError(facts(Reason::USAGE, error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    // Its stores have one class for a wait that took too long and for all other refusals.
    const std::string text = error.what_without_backtrace();
    const bool late =
        text.find("timeout") != std::string::npos || text.find("imed out") != std::string::npos;
    throw DistStoreError(facts(late ? Reason::TIMEOUT : Reason::STORE_LOST, text));
  }
}

}  // namespace unisono::plugin
