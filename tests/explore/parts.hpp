// Parts: operations of a run whose results are checked at once.
#pragma once

#include <cstdint>
#include <span>

#include "collective/allreduce/algorithms.hpp"
#include "explore/stage.hpp"

namespace unisono::explore {

using Algorithm = void (*)(shm::Arena& arena, const AllreduceData& data,
                           const Reduction& reduction);

/// An operation that all ranks agree about when they give the same `call`.
shm::Announcement announcement(std::uint32_t call = 1,
                               Milliseconds timeout = std::chrono::seconds(20));

/// One all_reduce of `elements` int32, which differ by rank, operation and place.
void allreduce(Player& player, Algorithm algorithm, std::size_t elements);
/// Only `root` gets the result.
void reduce(Player& player, Algorithm algorithm, std::size_t elements, int root);
void barrier(Player& player);
/// How blocks come: by slots, read in the memory of who gives them, or by lines.
enum class By { SLOTS, PULL, LINES };
void broadcast(Player& player, std::size_t bytes, int root, By by = By::SLOTS);
void broadcastByLines(Player& player, std::size_t bytes, int root);
void allgather(Player& player, std::size_t bytes, By by = By::SLOTS);
void alltoall(Player& player, std::size_t bytes, By by = By::SLOTS);
void reduceScatter(Player& player, std::size_t elements, By by = By::SLOTS);
/// The root gives to everybody; by lines.
void scatterByLines(Player& player, std::size_t bytes, int root);

/// Messages of `bytes` bytes, which differ by sender and tag.
void send(Player& player, int to, int tag, std::size_t bytes);
void receive(Player& player, int from, int tag, std::size_t bytes);
/// The same without a list, if that can be.
void sendAtOnce(Player& player, int to, int tag, std::size_t bytes);
void receiveAtOnce(Player& player, int from, int tag, std::size_t bytes);

/// Throws unless `bytes` bytes at `data` are what `source` made of `salt`.
void fill(std::byte* data, std::size_t bytes, int source, std::uint64_t salt);
void expect(const std::byte* data, std::size_t bytes, int source, std::uint64_t salt);

}  // namespace unisono::explore
