#include "explore/parts.hpp"

#include <numeric>
#include <stdexcept>

#include "base/str.hpp"
#include "collective/barrier.hpp"
#include "collective/blocks.hpp"
#include "collective/reduce_scatter.hpp"

namespace unisono::explore {
namespace {

[[noreturn]] void wrong(std::string_view what, std::uint64_t seq, std::size_t place) {
  throw std::runtime_error(str("a wrong result of ", what, " ", seq, " at ", place));
}

/// What a rank contributes to an operation, at one place.
std::int32_t contribution(int rank, std::uint64_t seq, std::size_t place) noexcept {
  return static_cast<std::int32_t>(((rank + 1) << 20) + static_cast<int>(seq << 14U) +
                                   static_cast<int>(place % 16'000));
}

std::vector<std::int32_t> contributions(int rank, std::uint64_t seq, std::size_t count) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = contribution(rank, seq, i);
  }
  return values;
}

void expectSum(std::span<const std::int32_t> values, const Player& player, std::size_t first = 0) {
  const std::uint64_t seq = player.arena.seq();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int32_t sum = 0;
    for (int rank = 0; rank < player.size; ++rank) {
      sum += contribution(rank, seq, first + i);
    }
    if (values[i] != sum) {
      wrong("operation", seq, i);
    }
  }
}

const Reduction& sumOf(int ranks) {
  static const std::vector<Reduction> byRanks = [] {
    std::vector<Reduction> all;
    for (int count = 0; count < 17; ++count) {
      all.push_back(Reduction::of(DType::INT32, ReduceOp::SUM, std::max(count, 1)));
    }
    return all;
  }();
  return byRanks[static_cast<std::size_t>(ranks)];
}

std::vector<int> everybody(const Player& player) {
  std::vector<int> ranks(static_cast<std::size_t>(player.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// A message under way.
class Letter final : public Parcel {
 public:
  Callbacks ended(int /*source*/, std::exception_ptr failure) noexcept override {
    failure_ = std::move(failure);
    return {};
  }
  void check() const {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  std::exception_ptr failure_;
};

void carry(Player& player, bool sends, int peer, int tag, std::span<std::byte> data) {
  const auto letter = std::make_shared<Letter>();
  letter->sends = sends;
  letter->peer = peer;
  letter->tag = tag;
  letter->data = data.data();
  letter->bytes = data.size();
  letter->timeout = std::chrono::seconds(20);
  letter->deadline = Deadline::after(letter->timeout);
  player.mail.post(letter, true);
  // Longer than the message may take: what ends it is its own deadline.
  player.mail.help(*letter, letter->deadline.when() + std::chrono::seconds(1));
  letter->check();
}

}  // namespace

shm::Announcement announcement(std::uint32_t call, Milliseconds timeout) {
  return {.name = "test", .signature = call, .timeout = timeout};
}

void fill(std::byte* data, std::size_t bytes, int source, std::uint64_t salt) {
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] =
        static_cast<std::byte>(salt * 37 + static_cast<std::size_t>(source) * 11 + i / 64 + 1);
  }
}

void expect(const std::byte* data, std::size_t bytes, int source, std::uint64_t salt) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto value =
        static_cast<std::byte>(salt * 37 + static_cast<std::size_t>(source) * 11 + i / 64 + 1);
    if (data[i] != value) {
      wrong("message or operation", salt, i);
    }
  }
}

void allreduce(Player& player, Algorithm algorithm, std::size_t elements) {
  player.arena.begin(announcement());
  std::vector<std::int32_t> data = contributions(player.rank, player.arena.seq(), elements);
  auto* bytes = reinterpret_cast<std::byte*>(data.data());
  algorithm(player.arena, {bytes, bytes, elements}, sumOf(player.size));
  player.arena.end(true);
  expectSum(data, player);
}

void reduce(Player& player, Algorithm algorithm, std::size_t elements, int root) {
  player.arena.begin(announcement());
  std::vector<std::int32_t> data = contributions(player.rank, player.arena.seq(), elements);
  auto* bytes = reinterpret_cast<std::byte*>(data.data());
  algorithm(player.arena, {bytes, bytes, elements, root}, sumOf(player.size));
  player.arena.end(false);
  if (player.rank == root) {
    expectSum(data, player);
  }
}

void barrier(Player& player) {
  player.arena.begin(announcement());
  barrierArena(player.arena);
  player.arena.end(true);
}

namespace {
/// Who only hears says so.
void beginBroadcast(Player& player, int root, shm::Place place = {}) {
  shm::Announcement what = announcement();
  what.gives = player.rank == root;
  what.place = what.gives ? place : shm::Place{};
  player.arena.begin(what);
}

shm::Place placeOf(const std::vector<std::byte>& data, By by) {
  return by != By::PULL ? shm::Place{}
                        : shm::Place{.block = shm::kOwnMemory,
                                     .offset = reinterpret_cast<std::uint64_t>(data.data())};
}

/// What others read in this memory from now on is seen.
void spoil(std::vector<std::byte>& data) {
  std::fill(data.begin(), data.end(), std::byte{0});
}
}  // namespace

void broadcastByLines(Player& player, std::size_t bytes, int root) {
  beginBroadcast(player, root);
  const std::uint64_t seq = player.arena.seq();
  std::vector<std::byte> data(bytes);
  if (player.rank == root) {
    fill(data.data(), bytes, root, seq);
  }
  shareLines(player.arena, data, data, std::span(&root, 1));
  player.arena.end(false);
  expect(data.data(), bytes, root, seq);
}

void broadcast(Player& player, std::size_t bytes, int root, By by) {
  std::vector<std::byte> data(bytes);
  beginBroadcast(player, root, placeOf(data, by));
  const std::uint64_t seq = player.arena.seq();
  std::vector<Block> take(static_cast<std::size_t>(player.size));
  take[static_cast<std::size_t>(root)] = data;
  if (player.rank == root) {
    fill(data.data(), bytes, root, seq);
  }
  shareBlocks(player.arena, player.rank == root ? ConstBlock(data) : ConstBlock(), take,
              std::span(&root, 1));
  player.arena.end(false);
  expect(data.data(), bytes, root, seq);
  spoil(data);
}

void allgather(Player& player, std::size_t bytes, By by) {
  std::vector<std::byte> mine(bytes);
  shm::Announcement what = announcement();
  what.place = placeOf(mine, by);
  player.arena.begin(what);
  const std::uint64_t seq = player.arena.seq();
  fill(mine.data(), bytes, player.rank, seq);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(player.size));
  std::vector<Block> take;
  for (std::size_t i = 0; i < static_cast<std::size_t>(player.size); ++i) {
    take.emplace_back(all.data() + i * bytes, bytes);
  }
  shareBlocks(player.arena, mine, take, everybody(player));
  player.arena.end(true);
  spoil(mine);
  for (int rank = 0; rank < player.size; ++rank) {
    expect(take[static_cast<std::size_t>(rank)].data(), bytes, rank, seq);
  }
}

void alltoall(Player& player, std::size_t bytes, By by) {
  const auto ranks = static_cast<std::size_t>(player.size);
  std::vector<std::byte> out(bytes * ranks);
  shm::Announcement what = announcement();
  what.place = placeOf(out, by);
  player.arena.begin(what);
  const std::uint64_t seq = player.arena.seq();
  std::vector<std::byte> in(bytes * ranks);
  std::vector<ConstBlock> give;
  std::vector<Block> take;
  for (std::size_t i = 0; i < ranks; ++i) {
    fill(out.data() + i * bytes, bytes, player.rank, seq + 16 * i);
    give.emplace_back(out.data() + i * bytes, bytes);
    take.emplace_back(in.data() + i * bytes, bytes);
  }
  dealBlocks(player.arena, give, take, everybody(player), by == By::LINES ? bytes : 0);
  player.arena.end(true);
  spoil(out);
  for (int rank = 0; rank < player.size; ++rank) {
    expect(take[static_cast<std::size_t>(rank)].data(), bytes, rank,
           seq + 16 * static_cast<std::uint64_t>(player.rank));
  }
}

void scatterByLines(Player& player, std::size_t bytes, int root) {
  beginBroadcast(player, root);
  const std::uint64_t seq = player.arena.seq();
  const auto ranks = static_cast<std::size_t>(player.size);
  std::vector<std::byte> out(bytes * ranks);
  std::vector<std::byte> mine(bytes);
  std::vector<ConstBlock> give(ranks);
  for (std::size_t i = 0; player.rank == root && i < ranks; ++i) {
    fill(out.data() + i * bytes, bytes, root, seq + 16 * i);
    give[i] = ConstBlock(out.data() + i * bytes, bytes);
  }
  std::vector<Block> take(ranks);
  take[static_cast<std::size_t>(root)] = mine;
  dealBlocks(player.arena, give, take, std::span(&root, 1), bytes);
  player.arena.end(false);
  spoil(out);
  expect(mine.data(), bytes, root, seq + 16 * static_cast<std::uint64_t>(player.rank));
}

void reduceScatter(Player& player, std::size_t elements, By by) {
  player.arena.begin(announcement());
  const auto ranks = static_cast<std::size_t>(player.size);
  const std::size_t bytes = elements * sizeof(std::int32_t);
  const std::vector<std::int32_t> all =
      contributions(player.rank, player.arena.seq(), elements * ranks);
  std::vector<ConstBlock> give;
  for (std::size_t i = 0; i < ranks; ++i) {
    give.emplace_back(reinterpret_cast<const std::byte*>(all.data()) + i * bytes, bytes);
  }
  std::vector<std::int32_t> out(elements);
  const auto reduce = by == By::LINES ? &reduceScatterLines : &reduceScatterSlots;
  reduce(player.arena, give, std::as_writable_bytes(std::span(out)), sumOf(player.size));
  player.arena.end(true);
  expectSum(out, player, static_cast<std::size_t>(player.rank) * elements);
}

void send(Player& player, int to, int tag, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  fill(data.data(), bytes, player.rank, static_cast<std::uint64_t>(tag));
  carry(player, true, to, tag, data);
}

void receive(Player& player, int from, int tag, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  carry(player, false, from, tag, data);
  expect(data.data(), bytes, from, static_cast<std::uint64_t>(tag));
}

void sendAtOnce(Player& player, int to, int tag, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  fill(data.data(), bytes, player.rank, static_cast<std::uint64_t>(tag));
  if (!player.mail.sendNow(to, tag, data)) {
    carry(player, true, to, tag, data);
  }
}

void receiveAtOnce(Player& player, int from, int tag, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  if (!player.mail.receiveNow(from, tag, data)) {
    carry(player, false, from, tag, data);
  }
  expect(data.data(), bytes, from, static_cast<std::uint64_t>(tag));
}

}  // namespace unisono::explore
