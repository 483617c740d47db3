// Meeting: how the ranks of a group find each other through the store, whatever will carry their
// data.
//
// Rank 0 announces where it can be asked; the others wait for that. Who cannot take part says so
// there, and everybody fails with its reason instead of waiting for it.
//
// Thread safety: none; one thread per rank.
#pragma once

#include <functional>
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
  bool mayUseTcp = true;              // where there is too little memory to share
};

/// A formation in shared memory cannot succeed, since not all ranks can share memory: those of
/// several hosts, or one that was told to use TCP, or has too little memory (RESOURCE, there).
class NoSharedMemory final : public DistBackendError {
 public:
  NoSharedMemory(ErrorFacts facts, std::string cookie)
      : DistBackendError(std::move(facts)), cookie_(std::move(cookie)) {}
  /// By which the ranks know the group that they may form by other means.
  const std::string& cookie() const noexcept { return cookie_; }

 private:
  std::string cookie_;
};

class Meeting {
 public:
  /// What was in the store when a rank came may be of an earlier attempt, by somebody who is about
  /// to try again: so long it is waited for that.
  static constexpr Milliseconds kSuccessorTime{1000};

  /// `options` have to outlive it.
  explicit Meeting(const FormOptions& options);

  const Deadline& deadline() const noexcept { return deadline_; }
  const ProcessMark& here() const noexcept { return here_; }

  /// Tells the others, with the exception that is being handled, that there will be no group.
  /// They fail at once, unless they have to take it for the word of an earlier attempt.
  void stayAway() noexcept;

  // Rank 0.

  /// Rank 0 in so far as it is the same whatever carries the data; where to ask it is left out.
  RootRecord aboutRoot(std::uint32_t version) const;
  /// Tells the others of `root`. DistBackendError (CONFIG) when another process is rank 0 already.
  void announce(const RootRecord& root);
  bool hasAnnounced() const noexcept { return announced_; }
  /// Somebody's word that it does not come, if there is one; it is taken away. `hasCome` knows who
  /// has come after all. Throws DistStoreError (STORE_LOST) when there is no store any more, by
  /// which others could come.
  std::optional<Decline> takeDecline(const RootRecord& root, Milliseconds patience,
                                     const std::function<bool(int)>& hasCome);
  /// The same of somebody who has not read an announcement.
  std::optional<Decline> takeEarlyDecline(const std::function<bool(int)>& hasCome);
  /// For a rank 0 that was announced by another meeting: what is in the store now is old.
  void noteEarlierDecline() { earlier_ = read(kEarlyDeclineKey); }
  /// Tells those who come from now on that the group is formed by TCP.
  void moveToTcp(const RootRecord& root);
  /// Takes the announcement away: everybody is there.
  void close();

  // The others.

  /// What rank 0, or one of an earlier attempt, has announced so far; empty for nothing.
  std::string announcement();
  /// What rank 0 has announced. Throws the error that says so when it does not in time.
  RootRecord awaitRoot();
  /// Tells rank 0 that this rank, which has read its announcement, does not come.
  void decline(const RootRecord& root, Reason reason, const std::string& text) noexcept;
  /// Tells those who do not see rank 0's process that there will be no group: `cause`, of its
  /// death.
  void speakFor(const RootRecord& root, const AbortCause& cause) noexcept;
  /// What somebody has told so of the group with this cookie, if so.
  std::optional<AbortCause> whatWasSaidFor(const std::string& cookie);
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
  // Of who does not know the cookie. A number that is used once precedes the record: whoever
  // declines a second time, for the same reason, is told from the first time.
  static constexpr std::string_view kEarlyDeclineKey = "unisono/decline";

  void refuse(Reason reason, const std::string& text);
  std::string read(std::string_view key);

  const FormOptions& options_;
  const Deadline deadline_;
  const Deadline successor_;
  const TimePoint start_;
  const ProcessMark here_;
  bool announced_ = false;
  std::string earlier_;  // rank 0: who had declined before it came
};

/// Meeting::stayAway() for a rank that cannot even begin to form.
void stayAway(const FormOptions& options) noexcept;

/// Ranks of a group as the world counts them; the same where `globalRanks` is empty.
std::vector<int> inWorld(const std::vector<int>& ranks, const std::vector<int>& globalRanks);

}  // namespace unisono
