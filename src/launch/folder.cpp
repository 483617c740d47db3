#include "launch/folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono::launch {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw DistError({.reason = Reason::RESOURCE,
                   .what = str("cannot make the folder ", path, ": ", why),
                   .hint = "give another one with --log-dir"});
}

void make(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    refuse(path, error.message());
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
    refuse(path_, errnoText(errno));
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

std::string Folder::of(int localRank, int attempt) const {
  std::string path = str(path_, "/attempt_", attempt, "/", localRank);
  make(path);
  return path;
}

}  // namespace unisono::launch
