// Excerpt: a file with those lines that contain one of some words, as torchrun's
// --duplicate-stdout-filters makes it.
//
// Thread safety: none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"

namespace unisono::launch {

/// The words of a list such as "apple,orange"; two commas are one that belongs to a word.
std::vector<std::string> parseWords(std::string_view text);

class Excerpt {
 public:
  /// Makes the file. Throws DistError (RESOURCE) when it cannot.
  Excerpt(const std::string& path, std::vector<std::string> words);

  /// Writes `line`, which may have an end, if it contains one of the words.
  void take(int rank, std::string_view line);

 private:
  UniqueFd file_;
  const std::vector<std::string> words_;
};

}  // namespace unisono::launch
