// ServerProcess: a store server in a process of its own, to be stopped, continued and killed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <sys/types.h>

namespace unisono::test {

/// A forked child. To be made before the parent has threads. It dies with its parent.
class Process {
 public:
  /// `body` runs in the child, which then exits with what it returns; 100 when it throws.
  explicit Process(const std::function<int()>& body);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// SIGSTOP; returns when it has stopped.
  void stop();
  /// SIGCONT.
  void resume();
  /// SIGKILL; returns when it is gone.
  void kill();
  /// Waits for its end and returns the exit status as waitpid gives it.
  int join();
  /// Whether it has ended by itself.
  bool ended();

  pid_t pid() const { return pid_; }

 private:
  const pid_t maker_;  // whose child it is; what else has forked since then only knows of it
  pid_t pid_ = -1;
  bool gone_ = false;
  int status_ = 0;
};

/// A process that runs a TCPStore server on a port of 127.0.0.1 until it is killed.
class ServerProcess {
 public:
  explicit ServerProcess(bool useLibUv = true);

  std::uint16_t port() const { return port_; }
  void stop() { process_->stop(); }
  void resume() { process_->resume(); }
  void kill() { process_->kill(); }
  pid_t pid() const { return process_->pid(); }

 private:
  std::uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace unisono::test
