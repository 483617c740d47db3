// Folder: where the files of a job's ranks are, laid out as torchrun does:
// BASE/RUN_XXXXXX/attempt_N/LOCAL_RANK/{stdout.log,stderr.log,error.json}.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"

namespace unisono::launch {

class Folder {
 public:
  /// What becomes of it in the end.
  enum class Fate : std::uint8_t { KEPT, REMOVED };

  /// Makes a new folder for `runId` in `base`, which is made as well; empty: that for temporary
  /// files. Nobody else may look into it. Throws DistError (RESOURCE) when it cannot be had.
  Folder(const std::string& base, const std::string& runId, Fate fate);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const noexcept { return path_; }

  /// The folder of an attempt, and that of a rank in it. Throw as the constructor when they cannot
  /// be made.
  std::string of(int attempt) const;
  std::string of(int localRank, int attempt) const;

  /// What is to be removed if we are killed: all of it, or the secret alone.
  std::string leftover() const;
  std::string secretFile() const { return path_ + "/secret"; }

 private:
  std::string path_;
  const Fate fate_;
};

/// Makes a file for what ranks print, in place of one that is there. Throws DistError (RESOURCE).
UniqueFd makeLogFile(const std::string& path);

}  // namespace unisono::launch
