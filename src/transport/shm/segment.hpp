// Segment: the memory that the ranks of a group on one host share, and how they come to share it.
//
// Rank 0 makes it and writes into the store where its monitor can be asked for it; the others ask,
// and prove with that that they are on the same host. Everybody holds its life word and marks
// itself live; when all are, the group is formed. A formation ends on every rank with the same
// cause: a rank that died, one that never came (named), two that claim one rank, members of
// different versions or settings.
//
// Thread safety: form() by one thread per rank; the accessors from anywhere.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "life/monitor.hpp"
#include "transport/meeting.hpp"
#include "transport/shm/layout.hpp"
#include "transport/shm/shared_mapping.hpp"

namespace unisono::shm {

class Segment {
 public:
  /// Meets the others. Throws DistError: TIMEOUT naming who is missing, PEER_DEAD, CONFIG,
  /// RESOURCE; DistStoreError when the store fails.
  static std::unique_ptr<Segment> form(const FormOptions& options);

  /// leave()s.
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// From now on what others have read of this process counts for nothing: before memory that they
  /// were told to read changes.
  void withdraw() noexcept;

  /// Marks the rank as gone, in good order: others may finish what it has finished, and do not
  /// wait for anything else of it. The memory stays.
  void leave() noexcept;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const std::string& group() const noexcept { return group_; }

  /// That the ranks may use together: the same for all of them, whatever each may use alone.
  int cores() const noexcept { return cores_; }

  Header& header() const noexcept { return *reinterpret_cast<Header*>(base()); }
  RankBlock& block(int rank) const noexcept {
    return reinterpret_cast<RankBlock*>(base() + layout_.blocks())[rank];
  }
  LlArea& llArea(int rank) const noexcept {
    return reinterpret_cast<LlArea*>(base() + layout_.lines())[rank];
  }
  SmallSlots& smallSlots(int rank) const noexcept {
    return reinterpret_cast<SmallSlots*>(base() + layout_.smallSlots())[rank];
  }

  /// Ends the group: tells all ranks `cause`, unless another one was told before. Returns the one
  /// that counts.
  AbortCause fail(AbortCause cause) const noexcept;

  /// What ended the group, if something did.
  std::optional<AbortCause> cause() const;

  /// Those whose process has died while it was in the group.
  std::vector<int> deadRanks() const;
  /// Whether its process has crashed and only the kernel is still busy with it.
  bool isDumpingCore(int rank) const;

  /// Whether nothing is to be expected of its process any more, or by this group.
  bool isHopeless(int rank) const;
  /// Why it does not answer: PEER_DEAD, PEER_LEFT, or TIMEOUT when it could.
  Reason whySilent(int rank) const;

  /// "process 77, state T stopped", or "process 77, dumping core".
  std::string describeProcess(int rank) const;
  /// Whether something outside holds its process: a signal, or a debugger.
  bool isStopped(int rank) const;

  /// Where the results of small operations of many ranks go.
  SmallSlots& results() const noexcept { return smallSlots(size_); }

  /// More memory that all ranks share, as Layout says: its owner's monitor makes it when it is
  /// first asked for. It lives as long as the segment. Empty when its owner is gone or time is
  /// over; throws DistError (RESOURCE) when there is no room.
  std::span<std::byte> extend(std::uint32_t number, Deadline deadline);

  /// Why extend() gave nothing although nobody has aborted the group.
  AbortCause silenceOfOwner(std::uint32_t number) const;

  /// The name of its monitor's socket.
  std::string socketOf(int rank) const;

  /// The pipe from one rank to another, made when it is first asked for; not open as extend().
  Pipe pipe(int from, int to, Deadline deadline);

 private:
  friend class Formation;
  /// What a rank gives out.
  struct Offers {
    Monitor::Offer group;  // rank 0: the memory, and that of long operations
    Monitor::Offer inbox;
  };
  Segment(const FormOptions& options, std::shared_ptr<SharedMapping> mapping, Offers offers);
  /// Whether its process number means the same here: not in another container.
  bool canSeeProcess(int rank) const;
  std::span<std::byte> ask(std::uint32_t number, Deadline deadline);
  Result<LocalMessage> askOwner(std::uint32_t number, Deadline deadline) const;
  std::byte* base() const noexcept { return mapping_->memory().bytes().data(); }

  const int rank_;
  const int size_;
  const std::string group_;
  const Layout layout_;
  const std::shared_ptr<SharedMapping> mapping_;
  const Offers offers_;
  const ForkGuard madeIn_;
  int cores_ = 1;
  const std::array<std::uint64_t, 2> word_;  // that proves to others whose memory they read
};

/// Whom to blame for `cause`: those it names, and for a death also those who have died since. Only
/// ranks that there are.
std::vector<int> culpritsNow(const Segment& segment, const AbortCause& cause);

}  // namespace unisono::shm
