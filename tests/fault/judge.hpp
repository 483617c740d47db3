// Judge: what survivors of a fault must have been told.
#pragma once

#include <string>
#include <vector>

#include "fault/crew.hpp"
#include "fault/row.hpp"

namespace unisono::fault {

struct Verdict {
  std::vector<Reason> reasons;  // any of them
  ErrorKind kind = ErrorKind::BACKEND;
  std::vector<int> culprits;  // all of them, and nobody else
  std::string text = {};      // a part of the sentence
  bool hasGroup = true;       // which stays failed; false: there is none yet
};

/// Throws Broken unless `rank` was told what `verdict` says, and its next call failed the same way.
void judge(Crew& crew, int rank, const Verdict& verdict);

/// Nanoseconds from `since` to the error of the last of `ranks`; who was busy elsewhere is told
/// when it calls.
std::int64_t lastTold(Crew& crew, const std::vector<int>& ranks, std::int64_t since);

/// Ranks up to `size` without those of `others`.
std::vector<int> ranksBut(int size, const std::vector<int>& others);

}  // namespace unisono::fault
