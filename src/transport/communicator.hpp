// Communicator: how algorithms reach the other ranks of a group that share no memory with this one.
//
//   comm.exchange({.rank = next, .block = mine}, {.rank = previous, .block = theirs});
//
// It moves blocks, some to other ranks and some from them, all at the same time: ranks that send to
// each other cannot hold each other up, however long the blocks are. Blocks from one rank to
// another arrive in the order in which they were sent. Both must mean the same number of bytes,
// which is checked; a block of no bytes is a message, too.
//
// Thread safety: one thread at a time, the one that drives the group's operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "reduction/reduction.hpp"

namespace unisono {

/// What a rank says of an operation before it does anything.
struct Call {
  std::string_view name = {};   // of something that stays
  std::uint32_t signature = 0;  // of what all ranks must agree on
  std::uint8_t opType = 0;
  std::uint8_t dtype = 0;
  std::uint8_t reduceOp = 0;
  std::uint8_t algorithm = 0;  // by which this rank carries it out
  std::int32_t root = -1;
  std::uint64_t count = 0;
  Milliseconds timeout{};
};

/// A block for another rank.
struct SendTo {
  int rank;
  std::span<const std::byte> block;
};

/// Where a block from another rank goes.
struct RecvFrom {
  enum class Into : std::uint8_t {
    STORE,   // block = theirs
    BEFORE,  // block = theirs op block
    AFTER,   // block = block op theirs
  };
  int rank;
  std::span<std::byte> block;
  Into into = Into::STORE;
  const Reduction* reduction = nullptr;  // unless it is stored
};

class Communicator {
 public:
  Communicator(int rank, int size) noexcept : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Opens the next operation; what scratch() gave for the one before may be given again. Throws
  /// what ended the group, if something did.
  void begin(const Call& call) {
    used_ = 0;
    open(call);
  }
  /// Closes it, done or not. Done by half it has ended the group.
  virtual void end(bool done) noexcept = 0;

  /// Returns when all of `out` may be changed again and all of `in` has come. No block of `in`
  /// overlaps another, or one of `out`. Throws DistBackendError or DistTimeoutError, after telling
  /// all ranks why.
  virtual void transfer(std::span<const SendTo> out, std::span<const RecvFrom> in) = 0;

  void send(const SendTo& out) { transfer({&out, 1}, {}); }
  void receive(const RecvFrom& in) { transfer({}, {&in, 1}); }
  void exchange(const SendTo& out, const RecvFrom& in) { transfer({&out, 1}, {&in, 1}); }

  /// Memory for this operation, not initialised.
  std::span<std::byte> scratch(std::size_t bytes);

 protected:
  virtual void open(const Call& call) = 0;

 private:
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };

  const int rank_;
  const int size_;
  std::vector<Piece> pieces_;
  std::size_t used_ = 0;  // pieces
};

}  // namespace unisono
