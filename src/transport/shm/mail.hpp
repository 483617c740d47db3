// Mail by shared memory: its pipes are in the memory that the ranks share.
#pragma once

#include <utility>
#include <vector>

#include "transport/mail.hpp"
#include "transport/shm/peer_memory.hpp"
#include "transport/shm/segment.hpp"

namespace unisono::shm {

class PipeCarrier : public Carrier {
 public:
  explicit PipeCarrier(Segment& segment)
      : segment_(segment), memory_(segment, "long messages are") {}

  int rank() const noexcept override { return segment_.rank(); }
  int size() const noexcept override { return segment_.size(); }
  const std::string& group() const noexcept override { return segment_.group(); }
  Pipe pipe(int from, int to, Deadline deadline) override {
    return segment_.pipe(from, to, deadline);
  }
  AbortCause whyNotOpen(int from, int to) override;
  bool isReadable(int peer) noexcept override { return memory_.isReadable(peer); }
  bool read(int peer, std::uint64_t address, std::span<std::byte> into) noexcept override {
    return memory_.read(peer, address, into);
  }
  void withdraw() noexcept override { segment_.withdraw(); }
  void ring(int peer) noexcept override;
  void wake() noexcept override { ring(rank()); }
  std::unique_ptr<Waitable> sleeper() override;
  PeerState stateOf(int peer) override;
  bool hasCrashed(int peer) override { return segment_.isDumpingCore(peer); }
  std::string describe(int peer) const override { return segment_.describeProcess(peer); }
  int processOf(int peer) const override { return segment_.block(peer).identity.pid; }
  const AbortRecord& record() const noexcept override { return segment_.header().abort; }
  std::optional<AbortCause> cause() const override { return segment_.cause(); }
  AbortCause fail(AbortCause cause) noexcept override { return segment_.fail(std::move(cause)); }
  std::vector<int> culpritsNow(const AbortCause& cause) const override {
    return shm::culpritsNow(segment_, cause);
  }

 private:
  Segment& segment_;
  PeerMemory memory_;
};

class Mail final : private PipeCarrier, public unisono::Mail {
 public:
  Mail(Segment& segment, int cores, std::vector<int> globalRanks)
      : PipeCarrier(segment),
        unisono::Mail(static_cast<PipeCarrier&>(*this), segment.size(), cores,
                      std::move(globalRanks)) {}
};

}  // namespace unisono::shm
