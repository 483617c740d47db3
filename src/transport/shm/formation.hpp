// Formation: how the ranks of a group find rank 0's memory, and wait for each other.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transport/shm/root_record.hpp"
#include "transport/shm/segment.hpp"

namespace unisono::shm {

class Formation {
 public:
  explicit Formation(const FormOptions& options);
  std::unique_ptr<Segment> run();

 private:
  // Rank 0.
  std::shared_ptr<SharedMapping> found();
  std::shared_ptr<SharedMapping> makeMemory();
  void refuseAll(const DistError& error) noexcept;
  Monitor::Offer serve(const std::shared_ptr<SharedMapping>& mapping);
  void announce();
  // The others.
  std::shared_ptr<SharedMapping> join();
  RootRecord awaitRoot();
  std::shared_ptr<SharedMapping> joinRoot();
  void decline(Reason reason, const std::string& text) noexcept;
  std::shared_ptr<SharedMapping> ask(const RootRecord& root);
  void checkHost(const RootRecord& root) const;
  bool isAlive(const RootRecord& root) const;
  // All.
  void goLive(Segment& segment);
  void awaitAll(Segment& segment);
  std::optional<AbortCause> findTrouble(Segment& segment);
  int sharedCores(const Segment& segment) const;
  bool hasDied(const RankBlock& block) const;
  void checkStore(Segment& segment);
  void checkDeclines(Segment& segment);
  void giveUp(Header& header) const noexcept;
  std::vector<int> missingRanks(const Segment& segment) const;
  std::string inWords(const std::vector<int>& ranks) const;
  [[noreturn]] void fail(Segment& segment, const AbortCause& cause);
  [[noreturn]] void blame(const AbortCause& cause) const;
  ErrorFacts facts() const;

  const FormOptions& options_;
  const Deadline deadline_;
  const TimePoint start_;
  const ProcessMark here_;
  RootRecord root_;
  bool refused_ = false;  // by rank 0
  Deadline nextLook_;
  Deadline nextStoreLook_;
};

}  // namespace unisono::shm
