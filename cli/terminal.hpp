// Terminal: what the program reads and writes, and how a person ends it.
//
// Thread safety: for the main thread only.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace unisono::cli {

/// Ctrl-C (or SIGTERM) arrived while something waited.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) noexcept : signal_(signal) {}
  int signal() const noexcept { return signal_; }
  const char* what() const noexcept override { return "interrupted"; }

 private:
  int signal_;
};

/// Whoever read our output has gone: nothing to complain about.
class ClosedPipe : public std::exception {};

/// A file or standard output could not be read or written.
class FileFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// From here on a signal that ends programs ends waits with Interrupted; a second one ends the
/// process at once. Writing into a closed pipe throws instead of killing.
void watchSignals();

/// Throws Interrupted when a signal has arrived since the last look.
void throwIfInterrupted();

/// Appends to standard output. Throws ClosedPipe or FileFailure, here or in flushOutput().
void print(std::string_view text);
void printLine(std::string_view line);
void flushOutput();

/// Writes all of `bytes`; `name` is for the message.
void writeAll(int fd, std::string_view bytes, std::string_view name);

/// For what is worth starting without standard output: what is printed goes nowhere then, where it
/// would be a failure else.
void doWithoutOutput();

/// True when the reader of standard output has gone.
bool outputClosed();

/// One line on stderr: "unisono: WHAT. DO: hint".
void complain(std::string_view what, std::string_view hint = {});

/// What `name` holds: a file, or standard input for "-". Refuses more than `most` bytes, since some
/// files have no end.
std::string readAll(const std::string& name, std::size_t most);

/// How `--color` and NO_COLOR were meant.
void setColor(std::string_view choice);
enum class Color : std::uint8_t { GREEN, YELLOW, RED, FAINT };
std::string colored(Color color, std::string_view text);

/// "1,234 of 10,000 keys" on a line of its own, when stderr is a terminal.
class Progress {
 public:
  explicit Progress(std::string_view what, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void at(std::uint64_t done);

 private:
  const std::string what_;
  const std::uint64_t total_;
  const bool shown_;
  TimePoint next_{};
  bool drawn_ = false;
};

}  // namespace unisono::cli
