#include "launch/folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <system_error>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::launch {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refusePath(const std::string& path, const std::string& why) {
  throw DistError({.reason = Reason::RESOURCE,
                   .what = str("cannot make the folder ", path, ": ", why),
                   .hint = "give another one with --log-dir"});
}

void make(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    refusePath(path, error.message());
  }
}

/// A name of the user's as part of a path.
std::string asFileName(std::string text) {
  for (char& c : text) {
    c = c == '/' || c == '\0' ? '_' : c;
  }
  return text.substr(0, 128);
}

}  // namespace

Folder::Folder(const std::string& base, const std::string& runId, Fate fate) : fate_(fate) {
  const char* temporary = std::getenv("TMPDIR");
  const bool hasOwn = temporary != nullptr && *temporary != '\0';
  const std::string parent = !base.empty() ? base : hasOwn ? temporary : "/tmp";
  make(parent);
  path_ = str(parent, "/", base.empty() ? "unisono_" : "", asFileName(runId), "_XXXXXX");
  if (::mkdtemp(path_.data()) == nullptr) {
    refusePath(path_, errnoText(errno));
  }
}

Folder::~Folder() {
  if (fate_ == Fate::REMOVED) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
}

std::string Folder::leftover() const {
  return fate_ == Fate::REMOVED ? path_ : secretFile();
}

std::string Folder::of(int attempt) const {
  std::string path = str(path_, "/attempt_", attempt);
  make(path);
  return path;
}

std::string Folder::of(int localRank, int attempt) const {
  std::string path = str(of(attempt), "/", localRank);
  make(path);
  return path;
}

UniqueFd makeLogFile(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("cannot write to ", path, ": ", errnoText(errno)),
                     .hint = "give another folder with --log-dir"});
  }
  return file;
}

}  // namespace unisono::launch
