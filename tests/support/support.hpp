// What tests share: folders that go away, captured log lines, processes with a watchdog.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/mutex.hpp"

namespace unisono::test {

/// A fresh folder, removed with everything in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Collects the log lines written while it lives.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  std::vector<std::string> lines() const;

 private:
  struct Kept {
    Mutex mutex;
    std::vector<std::string> lines UNISONO_GUARDED_BY(mutex);
  };
  // Shared with the sink: another thread may be in the middle of a line when this goes away.
  const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

/// Sets an environment variable while it lives.
class ScopedEnv {
 public:
  ScopedEnv(std::string name, const std::string& value);
  ~ScopedEnv();
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  std::string name_;
  std::string before_;
  bool wasSet_;
};

/// Time that passes only when told to.
class FakeClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return now_; }
  void advance(Milliseconds by) { now_ += by; }

 private:
  TimePoint now_ = TimePoint(std::chrono::hours(1));
};

/// While it lives, EXPECT_EXIT runs its statement in a process started anew, not in a fork:
/// one that has read no setting and logged nothing yet.
class FreshProcess {
 public:
  FreshProcess();
  ~FreshProcess();
  FreshProcess(const FreshProcess&) = delete;
  FreshProcess& operator=(const FreshProcess&) = delete;

 private:
  std::string before_;
};

/// Runs `body` in a forked child and returns its exit status as waitpid gives it; a child that
/// takes longer than 20 s is killed. A body that returns true exits 0; one that returns false,
/// throws, or whose expectations fail, exits 1.
int runInChild(const std::function<bool()>& body);

}  // namespace unisono::test
