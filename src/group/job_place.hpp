// JobPlace: which rank this process is, of how many: what its launcher has said in the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace unisono {

struct JobPlace {
  int rank = 0;
  int size = 1;
  std::string source;  // who has said so: "Open MPI"
  /// Names the job among all that ever ran on this host, if all its ranks are here and their
  /// launcher tells; else empty. Nobody else can guess it in time to do harm: it is used in a
  /// folder of the user's own.
  std::string job = {};
};

/// The value of an environment variable, or null: std::getenv, or a test's.
using Variables = std::function<const char*(const char*)>;

/// What the first launcher says that has set both numbers: UNISONO_RANK and UNISONO_SIZE, then
/// torchrun, Open MPI, PMI, Slurm. None without any. Throws UsageError (CONFIG) for numbers that
/// cannot be, and when one has said only half: every rank would take itself for a world of one.
std::optional<JobPlace> findJobPlace(const Variables& variable);

}  // namespace unisono
