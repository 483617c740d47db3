// Scratch: a folder for what a benchmark shares with the programs it starts, gone with this object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "unisono/base/error.hpp"

namespace unisono::bench {

class Scratch {
 public:
  /// In memory, where there is such a place that can be written to.
  Scratch() {
    const char* folder = std::getenv("TMPDIR");
    for (const std::string& place :
         {std::string("/dev/shm"), std::string(folder != nullptr ? folder : "/tmp")}) {
      std::string name = place + "/unisono-bench-XXXXXX";
      if (::mkdtemp(name.data()) != nullptr) {
        path_ = name;
        return;
      }
    }
    throw DistError({.reason = Reason::RESOURCE,
                     .what = "no folder can be made in /dev/shm, nor in that for temporary files",
                     .hint = "let TMPDIR name a folder that can be written to"});
  }
  ~Scratch() { remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// What others have opened stays theirs.
  void remove() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace unisono::bench
