// Formation: how the ranks of a group on one host find rank 0's memory, and wait for each other.
//
// formation_root.cpp has what rank 0 does first, formation_join.cpp what the others do, and
// formation_wait.cpp what all do then. What goes through the store is a Meeting's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/meeting.hpp"
#include "transport/shm/segment.hpp"

namespace unisono::shm {

class Formation {
 public:
  explicit Formation(const FormOptions& options);
  std::unique_ptr<Segment> run();

 private:
  // How often those who wait look whether a process dumps core, and rank 0 whether the store lives.
  static constexpr Milliseconds kProcessLook{50};
  static constexpr Milliseconds kStoreLook{200};
  // Nothing else ends a formation with this reason.
  static constexpr Reason kNoSharedMemory = Reason::PEER_UNREACHABLE;

  void checkSystem();
  // Rank 0.
  std::shared_ptr<SharedMapping> found();
  std::shared_ptr<SharedMapping> makeMemory();
  Monitor::Offer serve(const std::shared_ptr<SharedMapping>& mapping);
  // The others.
  std::shared_ptr<SharedMapping> join();
  std::shared_ptr<SharedMapping> joinRoot();
  void decline(Reason reason, const std::string& text) noexcept;
  std::shared_ptr<SharedMapping> ask(const RootRecord& root);
  std::shared_ptr<SharedMapping> adopt(LocalMessage answer, const RootRecord& root) const;
  void checkHost(const RootRecord& root) const;
  [[noreturn]] void throwNoSharedMemory(std::string why, const std::vector<int>& ranks,
                                        Reason reason = kNoSharedMemory) const;
  // All.
  Monitor::Offer offerInbox(const std::shared_ptr<SharedMapping>& mapping) const;
  void goLive(Segment& segment);
  void awaitAll(Segment& segment);
  std::optional<AbortCause> findTrouble(Segment& segment);
  int sharedCores(const Segment& segment) const;
  bool watches(int rank) const noexcept;
  bool hasDied(int rank, const RankBlock& block) const;
  [[noreturn]] void failLate(Segment& segment);
  void checkStore(Segment& segment);
  std::vector<int> missingRanks(const Segment& segment) const;
  void giveUp(Header& header) const noexcept;
  [[noreturn]] void fail(Segment& segment, const AbortCause& cause);

  const FormOptions& options_;
  Meeting meeting_;
  RootRecord root_;
  bool refused_ = false;  // by rank 0
  Deadline nextLook_;
  Deadline nextStoreLook_;
};

}  // namespace unisono::shm
