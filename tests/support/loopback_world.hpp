// LoopbackWorld: a group that shares nothing but messages, whose ranks are threads of the test.
//
//   LoopbackWorld world(4, {.room = 0});
//   world.run([](Communicator& comm) { … });
//   EXPECT_EQ(world.cost(0).bytes, 3 * 400);
//
// How many bytes a channel holds is up to the test: with no room at all a sender waits until its
// block is taken, so that an algorithm which counts on buffers waits for ever. It is stricter than
// it must be: blocks of one transfer that overlap, messages of another operation, and messages that
// nobody took are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "transport/communicator.hpp"

namespace unisono::test {

struct LoopbackOptions {
  std::size_t room = SIZE_MAX;  // bytes of each channel
  Milliseconds timeout = std::chrono::seconds(20);
};

/// What a rank has sent, and how many messages one after the other it has waited for: each carries
/// the flights of its sender, and who receives it has had one more, or as many as before.
struct LoopbackCost {
  std::size_t bytes = 0;
  std::size_t messages = 0;
  std::size_t flights = 0;
  bool operator==(const LoopbackCost&) const = default;
};

class LoopbackWorld {
 public:
  explicit LoopbackWorld(int ranks, const LoopbackOptions& options = {});
  ~LoopbackWorld();

  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  Communicator& operator[](int rank);

  /// Runs `body` on a thread for every rank. Throws what the lowest rank that threw has thrown, or
  /// logic_error when a message is left over.
  void run(const std::function<void(Communicator&)>& body);
  /// The same, and returns what each rank threw (null for none).
  std::vector<std::exception_ptr> outcomes(const std::function<void(Communicator&)>& body);

  /// Since the world was made, or since resetCosts().
  LoopbackCost cost(int rank) const;
  /// Bytes and messages of all ranks, and the most flights of any.
  LoopbackCost total() const;
  void resetCosts();

 private:
  class Shared;
  class Rank;

  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

/// Runs `body` as one operation, about which all ranks agree when they give the same `signature`.
template <typename Body>
void operate(Communicator& comm, Body body, std::uint32_t signature = 1) {
  comm.begin({.name = "test", .signature = signature, .timeout = std::chrono::seconds(20)});
  body();
  comm.end(true);
}

}  // namespace unisono::test
