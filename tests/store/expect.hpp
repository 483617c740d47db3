// What store tests ask of errors, and processes they can kill.
#pragma once

#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/base/error.hpp"

namespace unisono::test {

/// The error of type `Error` that `call` throws; the test fails when it throws something else.
template <typename Error = DistStoreError, typename Call>
std::optional<ErrorFacts> errorOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.facts();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type was thrown: " << error.what();
    return std::nullopt;
  }
  ADD_FAILURE() << "nothing was thrown";
  return std::nullopt;
}

template <typename Error = DistStoreError, typename Call>
Reason reasonOf(Call call) {
  return errorOf<Error>(call).value_or(ErrorFacts{.reason = Reason::USAGE}).reason;
}

template <typename Error = DistStoreError, typename Call>
std::string textOf(Call call) {
  const std::optional<ErrorFacts> facts = errorOf<Error>(call);
  return facts ? describe(*facts) : "";
}

/// The text of what `thrown` is; "" for nothing.
inline std::string textOfThrown(const std::exception_ptr& thrown) {
  return thrown ? textOf<DistError>([&] { std::rethrow_exception(thrown); }) : "";
}

/// A forked child that runs `body`, then waits to be killed; killed at the latest by the
/// destructor. `body` may call `tell` to let awaitWord() of the parent return.
class Child {
 public:
  using Tell = std::function<void()>;

  explicit Child(const std::function<void(const Tell&)>& body) {
    int ends[2];
    if (::pipe(ends) != 0) {
      std::abort();
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::alarm(60);
      try {
        body([&] { static_cast<void>(::write(ends[1], "x", 1)); });
      } catch (const std::exception& error) {
        static_cast<void>(!std::fprintf(stderr, "child: %s\n", error.what()));
        ::_exit(1);
      }
      while (true) {
        ::pause();
      }
    }
    ::close(ends[1]);
    words_ = ends[0];
  }
  ~Child() {
    kill();
    ::close(words_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits for a word of the child; false when it ended without one.
  bool awaitWord() {
    char word = 0;
    return ::read(words_, &word, 1) == 1;
  }

  /// Kills it with SIGKILL and waits until it is gone.
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int words_ = -1;
};

}  // namespace unisono::test
