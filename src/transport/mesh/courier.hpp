// Courier: the Communicator of a group whose ranks reach each other by TCP.
//
// The thread that runs an operation sends and receives itself: it tries, and when nothing moves it
// tries again for a moment where it has a core to itself, then sleeps until something can be moved.
// Frame and data go in one call; data comes straight to where it belongs, or is reduced while the
// rest is under way.
//
// Thread safety: as Communicator.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <sys/uio.h>
#include <vector>

#include "base/wait_policy.hpp"
#include "transport/communicator.hpp"
#include "transport/mesh/mesh.hpp"

namespace unisono::mesh {

class Courier final : public Communicator {
 public:
  /// `describe` turns a call into text for a person: "all_reduce(float32[1000], SUM)".
  using Describe = std::string (*)(const Call& call);

  Courier(Mesh& mesh, int cores, Describe describe);

  void end(bool done) noexcept override;
  void transfer(std::span<const SendTo> out, std::span<const RecvFrom> in) override;

  std::uint64_t seq() const noexcept { return seq_; }
  /// Throws `cause` as the error of this operation.
  [[noreturn]] void throwCauseHere(const AbortCause& cause) const;

 protected:
  void open(const Call& call) override;

 private:
  class Sleeper;
  /// A block on its way out.
  struct Sending {
    SendTo what;
    Link* link;
    Frame::Bytes head;
    std::size_t done;  // bytes of head and block
    bool isDone() const noexcept { return done == head.size() + what.block.size(); }
  };
  /// A block on its way in.
  struct Receiving {
    RecvFrom what;
    Link* link;  // null while the other has not connected
    Frame::Bytes head;
    std::size_t got;                // of the head
    std::size_t done;               // of the block
    std::size_t staged;             // bytes that have come and are not reduced yet
    std::vector<std::byte>* stage;  // where they are
    bool isDone() const noexcept { return got == head.size() && done == what.block.size(); }
  };

  void prepare(std::span<const SendTo> out, std::span<const RecvFrom> in);
  bool moveAll();
  bool push(Sending& sending);
  bool pull(Receiving& receiving);
  iovec roomFor(Receiving& receiving);
  void checkHead(Receiving& receiving, std::size_t more);
  void take(Receiving& receiving, std::size_t bytes);

  void waitForMore();
  void lookAtLinks();
  void watchSilent();
  short eventsOf(const Link& link) const noexcept;
  Deadline deadline();
  std::vector<int> awaited() const;
  void checkProcesses() const;
  void compareCalls() const;
  [[noreturn]] void throwTimeout();
  /// What a rank says of itself; nothing where it does not answer.
  struct Answer {
    int peer;
    std::optional<Report> report;
  };
  std::vector<Answer> enquire(Deadline until) const;
  std::vector<int> laggards() const;
  AbortCause mismatch(int peer, const Frame& theirs, std::size_t expected) const;
  std::string inWords(const std::vector<int>& ranks) const;

  Mesh& mesh_;
  const WaitPolicy policy_;
  const std::chrono::microseconds trying_;
  const Describe describe_;
  std::uint64_t seq_ = 0;
  Call call_;
  std::optional<Deadline> deadline_;  // set by the first wait of an operation
  TimePoint start_{};
  std::vector<Sending> out_;
  std::vector<Receiving> in_;
  std::list<std::vector<std::byte>> stages_;
};

}  // namespace unisono::mesh
