#include "support/support.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace unisono::test {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "unisono-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a temporary folder");
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

LogCapture::LogCapture() {
  setLogSink([kept = kept_](LogLevel, std::string_view line) {
    const MutexLock lock(kept->mutex);
    kept->lines.emplace_back(line);
  });
}

LogCapture::~LogCapture() {
  setLogSink({});
}

std::vector<std::string> LogCapture::lines() const {
  const MutexLock lock(kept_->mutex);
  return kept_->lines;
}

ScopedEnv::ScopedEnv(std::string name, const std::string& value) : name_(std::move(name)) {
  const char* before = std::getenv(name_.c_str());
  wasSet_ = before != nullptr;
  before_ = wasSet_ ? before : "";
  ::setenv(name_.c_str(), value.c_str(), 1);
}

ScopedEnv::~ScopedEnv() {
  if (wasSet_) {
    ::setenv(name_.c_str(), before_.c_str(), 1);
  } else {
    ::unsetenv(name_.c_str());
  }
}

FreshProcess::FreshProcess() : before_(GTEST_FLAG_GET(death_test_style)) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
}

FreshProcess::~FreshProcess() {
  GTEST_FLAG_SET(death_test_style, before_);
}

int runInChild(const std::function<bool()>& body) {
  std::fflush(stdout);  // or the child would write what is buffered here a second time
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::runtime_error("cannot fork");
  }
  if (child == 0) {
    ::alarm(20);  // a hanging child is ended by SIGALRM, which the caller sees
    bool good = false;
    try {
      good = body() && !::testing::Test::HasFailure();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(stdout);
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      throw std::runtime_error("cannot wait for the child");
    }
  }
  return status;
}

}  // namespace unisono::test
