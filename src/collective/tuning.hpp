// Tuning: what UNISONO_ALGO says.
//
//   allreduce=flat                            one algorithm wherever it can be used
//   allreduce=ll:0-1k,flat:1k-64k             each for so many bytes; else the best
//   allreduce=slices:64k-inf;blocks=pull:32k-1m
//   all_reduce=tcp/ring,broadcast=tcp/binomial:0-1m   between ranks that reach each other by TCP
//
// Settings are separated by commas or semicolons; one without a name goes on with the last named.
// Names of operations may have their underscores or not.
// A range is from its first number on, below its second; k, m and g are powers of 1,024.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective/thresholds.hpp"

namespace unisono {

/// One algorithm, and for how many bytes.
struct TunedRange {
  std::string algorithm;
  ByteRange bytes;
};

/// The same of an operation between ranks that reach each other by messages only.
struct TunedLinks {
  std::string operation;  // without underscores: "allreduce"
  TunedRange range;       // its algorithm without "tcp/"
};

struct Tuning {
  std::vector<TunedRange> allreduce;
  std::vector<TunedRange> blocks;  // "slots" or "pull"
  std::vector<TunedLinks> links;

  /// What `text` says; nothing when it is not understood. Whether there are such algorithms is not
  /// looked at.
  static std::optional<Tuning> parse(std::string_view text);
};

}  // namespace unisono
