// Where the ranks of a job on one host meet when their launcher names no address: at a file in a
// folder of the user's own.
//
// Rank 0 makes a new store, and an invitation to it under the name of the job, which it holds
// locked: an invitation that is not locked was left by somebody who is gone. Every other rank
// claims its place at that store, and waits for the next invitation when the place is taken: then
// it was meant for an earlier program of the same job. When all have come the invitation goes; the
// store goes with the last rank.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "unisono/store/store.hpp"

namespace unisono {

/// Throws DistStoreError (TIMEOUT) saying who has not come, UsageError (CONFIG) when the folder
/// belongs to somebody else.
std::shared_ptr<Store> meetOnHost(const std::string& job, int rank, int size,
                                  std::chrono::milliseconds timeout);

/// How the paths of the files of a job begin, in that folder, which is made if need be.
std::string meetingFiles(const std::string& job);

}  // namespace unisono
