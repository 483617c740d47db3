// Errors: what unisono throws, and the one line that every error prints.
//
//   unisono: WHAT. DO: remedy. [TOKEN] {op=get host=10.0.0.1:29500 elapsed=300000ms}
//
// The sentence is for a person, the token and the fields are for programs. The
// throw site gives the facts; describe() lays them out, so all messages look alike.
//
// Thread safety: error objects are immutable after construction.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/api.hpp"

namespace unisono {

/// Why something failed. The name of the enumerator is the token in the text.
enum class Reason : std::uint8_t {
  PEER_DEAD,         // a peer's process is gone or dumping core
  PEER_UNREACHABLE,  // no connection, or it timed out in the network
  PEER_LEFT,         // a peer left cleanly while it was still needed
  TIMEOUT,           // the deadline passed; nobody is known to be dead
  ABORTED,           // somebody called abort()
  MISMATCH,          // ranks called different things
  POISONED,          // the group failed earlier
  FORKED,            // used in a forked child
  SHUTDOWN,          // the object, library or interpreter is closing
  STORE_LOST,        // the connection to the store is lost
  STORE_STALE,       // a FileStore left by another job
  AUTH_FAILED,       // authentication failed
  PROTOCOL,          // malformed data from a peer or file
  LIMIT,             // a limit was hit; the text names it
  RESOURCE,          // memory, descriptors, threads, ports, disk
  CONFIG,            // impossible settings
  USAGE,             // wrong arguments; nothing was sent
};

/// The stable, greppable word for `reason`, such as "STORE_LOST".
UNISONO_API std::string_view token(Reason reason) noexcept;

/// The reason whose token is `text`, if there is one.
UNISONO_API std::optional<Reason> reasonWithToken(std::string_view text) noexcept;

/// Everything known about an error. Fields left at their default are not printed.
struct ErrorFacts {
  Reason reason = Reason::USAGE;
  std::string what = {};  // one or two sentences without a final stop: what happened and why
  std::string hint = {};  // what to do about it
  std::string op = {};    // "get", "all_reduce"
  std::optional<std::int64_t> seq = {};
  std::string group = {};
  int rank = -1;
  int world = -1;
  std::vector<int> culprits = {};  // global ranks
  std::string host = {};           // "10.0.0.1:29500"
  std::int64_t pid = -1;
  std::string detectedBy = {};
  std::optional<std::chrono::milliseconds> elapsed = {};
};

/// The one-line text of an error; control characters are escaped.
UNISONO_API std::string describe(const ErrorFacts& facts);

/// Base of everything unisono throws.
class UNISONO_API DistError : public std::runtime_error {
 public:
  explicit DistError(ErrorFacts facts);
  ~DistError() override;
  DistError(const DistError&) = default;
  DistError& operator=(const DistError&) = default;

  const ErrorFacts& facts() const noexcept { return *facts_; }
  Reason reason() const noexcept { return facts_->reason; }
  const std::string& hint() const noexcept { return facts_->hint; }
  const std::vector<int>& culprits() const noexcept { return facts_->culprits; }

 private:
  std::shared_ptr<const ErrorFacts> facts_;  // shared: copying an exception must not throw
};

/// The arguments are wrong; nothing was sent.
class UNISONO_API UsageError : public DistError {
 public:
  using DistError::DistError;
  ~UsageError() override;
};

/// This object does not offer the operation at all (Python: NotImplementedError).
class UNISONO_API NotSupportedError : public UsageError {
 public:
  using UsageError::UsageError;
  ~NotSupportedError() override;
};

/// A collective failed: a peer was lost, somebody aborted, calls did not match.
class UNISONO_API DistBackendError : public DistError {
 public:
  using DistError::DistError;
  ~DistBackendError() override;
};

/// The deadline of a collective passed.
class UNISONO_API DistTimeoutError : public DistError {
 public:
  using DistError::DistError;
  ~DistTimeoutError() override;
};

/// A store refused the call, or its timeout passed.
class UNISONO_API DistStoreError : public DistError {
 public:
  using DistError::DistError;
  ~DistStoreError() override;
};

/// A pop that was not to wait found an empty queue.
class UNISONO_API DistQueueEmptyError : public DistStoreError {
 public:
  using DistStoreError::DistStoreError;
  ~DistQueueEmptyError() override;
};

/// Connecting or talking to a peer failed.
class UNISONO_API DistNetworkError : public DistError {
 public:
  using DistError::DistError;
  ~DistNetworkError() override;
};

/// Authentication failed.
class UNISONO_API DistAuthError : public DistError {
 public:
  using DistError::DistError;
  ~DistAuthError() override;
};

}  // namespace unisono
