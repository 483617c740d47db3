// Meeting: how the ranks of a group find each other through the store, whatever will carry their
// data.
//
// Rank 0 announces where it can be asked; the others wait for that. Who cannot take part says so
// there, and everybody fails with its reason instead of waiting for it.
//
// Thread safety: none; one thread per rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/store/store.hpp"

#include "base/clock.hpp"
#include "base/process.hpp"
#include "life/abort_record.hpp"
#include "transport/root_record.hpp"

namespace unisono {

/// What a rank brings along to a formation.
struct FormOptions {
  StorePtr store;
  int rank = 0;
  int size = 1;
  std::string group;     // its name, for messages
  std::string settings;  // what all members must have set alike
  Milliseconds timeout{};
  std::vector<int> globalRanks = {};  // the members as the world counts them; empty: the same
};

class Meeting {
 public:
  /// `options` have to outlive it.
  explicit Meeting(const FormOptions& options);

  const Deadline& deadline() const noexcept { return deadline_; }
  const ProcessMark& here() const noexcept { return here_; }

  /// Rank 0 in so far as it is the same whatever carries the data; where to ask it is left out.
  RootRecord aboutRoot(std::uint32_t version) const;

  // Rank 0.

  /// Tells the others of `root`. DistBackendError (CONFIG) when another process is rank 0 already.
  void announce(const RootRecord& root);
  /// Tells those who look for rank 0 that there will be no group, and why.
  void refuse(std::uint32_t version, const DistError& error) noexcept;
  /// Somebody's word that it cannot come, if there is one; it is taken away. Throws
  /// DistStoreError (STORE_LOST) when there is no store any more, by which others could come.
  std::optional<Decline> takeDecline(const RootRecord& root, Milliseconds patience);
  /// Takes the announcement away: everybody is there.
  void close();

  // The others.

  /// What rank 0 has announced. Throws the error that says so when it does not in time.
  RootRecord awaitRoot();
  /// Tells rank 0 that this rank does not come.
  void decline(const RootRecord& root, Reason reason, const std::string& text) noexcept;
  /// Whether its process may still do something.
  bool isAlive(const RootRecord& root) const;

  // Words.

  /// What this rank is doing.
  ErrorFacts facts() const;
  /// "ranks 2, 5", as the world counts them.
  std::string inWords(const std::vector<int>& ranks) const;
  /// Throws what `cause` says.
  [[noreturn]] void blame(const AbortCause& cause) const;

 private:
  const FormOptions& options_;
  const Deadline deadline_;
  const TimePoint start_;
  const ProcessMark here_;
};

/// Ranks of a group as the world counts them; the same where `globalRanks` is empty.
std::vector<int> inWorld(const std::vector<int>& ranks, const std::vector<int>& globalRanks);

}  // namespace unisono
