// How many bytes a rank writes for the others in each way to do an operation: as few as
// docs/algorithms.md says.
#include <algorithm>
#include <cstring>
#include <gmock/gmock.h>

#include "collective/block_flow.hpp"
#include "collective/block_samples.hpp"
#include "collective/reduce_scatter.hpp"
#include "collective/selection.hpp"
#include "collective/shares.hpp"
#include "support/thread_world.hpp"

namespace unisono {
namespace {

using test::Bytes;
using test::everybody;
using test::operate;
using test::ThreadWorld;
using ::testing::Each;

constexpr std::byte kUntouched{0x5A};
constexpr std::byte kData{0xA5};
constexpr std::size_t kSizeOfSize = sizeof(std::uint64_t);

/// What a rank has for others to read, all of it.
std::vector<std::span<std::byte>> ownMemory(shm::Segment& segment, int rank) {
  std::vector<std::span<std::byte>> all;
  for (int parity = 0; parity < 2; ++parity) {
    all.emplace_back(segment.smallSlots(rank).bytes[parity]);
    all.emplace_back(segment.smallSlots(segment.size()).bytes[parity]);  // results: of the last one
    for (shm::LlLine& line : segment.llArea(rank).lines[parity]) {
      all.emplace_back(line.payload);
    }
  }
  const std::span<std::byte> ring =
      segment.extend(shm::kRingExtension, Deadline::after(std::chrono::seconds(60)));
  const std::size_t share = ring.size() / static_cast<std::size_t>(segment.size());
  all.push_back(ring.subspan(static_cast<std::size_t>(rank) * share, share));
  return all;
}

/// How many bytes of `memory`, most of which is untouched, have been written.
std::size_t touched(std::span<const std::byte> memory) {
  static const Bytes kPage(4096, kUntouched);
  std::size_t count = 0;
  while (!memory.empty()) {
    const auto piece = memory.first(std::min(memory.size(), kPage.size()));
    if (std::memcmp(piece.data(), kPage.data(), piece.size()) != 0) {
      count += piece.size() -
               static_cast<std::size_t>(std::count(piece.begin(), piece.end(), kUntouched));
    }
    memory = memory.subspan(piece.size());
  }
  return count;
}

/// How many bytes each rank has put where others read them when all have run `body` once, with data
/// of which no byte is as memory was before.
std::vector<std::size_t> bytesWrittenBy(int ranks, const std::function<void(shm::Arena&)>& body) {
  ThreadWorld world(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const std::span<std::byte> memory : ownMemory(world.segment(rank), rank)) {
      std::memset(memory.data(), std::to_integer<int>(kUntouched), memory.size());
    }
  }
  world.run(body);
  std::vector<std::size_t> written;
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t count = 0;
    for (const std::span<std::byte> memory : ownMemory(world.segment(rank), rank)) {
      count += touched(memory);
    }
    written.push_back(count);
  }
  return written;
}

/// The same for one operation, whose data has no place that others know.
std::vector<std::size_t> bytesWritten(int ranks,
                                      const std::function<void(shm::Arena&)>& operation) {
  return bytesWrittenBy(ranks,
                        [&](shm::Arena& arena) { operate(arena, [&] { operation(arena); }); });
}

class CostTest : public ::testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  std::size_t count() const { return static_cast<std::size_t>(ranks()); }
  std::size_t others() const { return count() - 1; }
};
INSTANTIATE_TEST_SUITE_P(Ranks, CostTest, ::testing::Range(2, 10));

constexpr std::size_t kSizes[] = {7, 55, 57, 4001, 20'011};

TEST_P(CostTest, AnAllReduceWritesItsVectorOnce) {
  for (const AllreduceAlgorithm& algorithm : allreduceAlgorithms()) {
    for (const std::size_t bytes : kSizes) {
      if (!algorithm.applies({bytes, 1, ranks(), false})) {
        continue;
      }
      const Reduction reduction = Reduction::of(DType::UINT8, ReduceOp::BOR, ranks());
      const auto written = bytesWritten(ranks(), [&](shm::Arena& arena) {
        Bytes data(bytes, kData);
        algorithm.run(arena, {data.data(), data.data(), bytes}, reduction);
      });
      // `last` has one result for all, which counts for everybody here.
      const std::size_t right = algorithm.name == "last" ? 2 * bytes : bytes;
      EXPECT_THAT(written, Each(right)) << algorithm.name << ", " << bytes << " bytes";
    }
  }
}

/// Everybody's block for everybody, by slots or by lines.
template <typename Share>
std::vector<std::size_t> shared(int ranks, std::size_t bytes, Share share) {
  return bytesWritten(ranks, [&](shm::Arena& arena) {
    const Bytes mine(bytes, kData);
    std::vector<Bytes> got(static_cast<std::size_t>(ranks), Bytes(bytes));
    share(arena, mine, std::vector<Block>(got.begin(), got.end()), everybody(ranks));
  });
}

TEST_P(CostTest, WhatAllTakeIsWrittenOnce) {
  for (const std::size_t bytes : kSizes) {
    const auto bySlots = [](auto&&... all) { shareBlocks(all...); };
    EXPECT_THAT(shared(ranks(), bytes, bySlots), Each(bytes)) << bytes << " bytes by slots";
    if (bytes <= mostOfDealtLines(2)) {
      const auto byLines = [](auto&&... all) { shareLines(all...); };
      EXPECT_THAT(shared(ranks(), bytes, byLines), Each(bytes)) << bytes << " bytes by lines";
    }
  }
}

TEST_P(CostTest, WhatIsPulledIsNotWritten) {
  for (const std::size_t bytes : kSizes) {
    const auto written = bytesWrittenBy(ranks(), [&](shm::Arena& arena) {
      const Bytes mine(bytes, kData);
      std::vector<Bytes> got(count(), Bytes(bytes));
      shm::Announcement what = test::announcement();
      what.place = {.block = shm::kOwnMemory,
                    .offset = reinterpret_cast<std::uint64_t>(mine.data())};
      arena.begin(what);
      shareBlocks(arena, mine, std::vector<Block>(got.begin(), got.end()), everybody(ranks()));
      arena.end(true);
      EXPECT_THAT(got, Each(mine));
    });
    EXPECT_THAT(written, Each(0U)) << bytes << " bytes";
  }
}

TEST_P(CostTest, WhatEachTakesOfItsOwnIsWrittenForItAlone) {
  for (const std::size_t bytes : kSizes) {
    for (const std::size_t mostByLines : {std::size_t{0}, mostOfDealtLines(ranks())}) {
      const auto written = bytesWritten(ranks(), [&](shm::Arena& arena) {
        const Bytes mine(bytes, kData);
        const std::vector<ConstBlock> give(count(), mine);
        std::vector<Bytes> got(count(), Bytes(bytes));
        dealBlocks(arena, give, std::vector<Block>(got.begin(), got.end()), everybody(ranks()),
                   mostByLines);
      });
      // By lines each taker learns the size of its block once; by slots, of all blocks each round.
      const std::size_t room = shm::usualChunk(count()) - roundUpToLine(count() * kSizeOfSize);
      const std::size_t rounds = roundsFor(bytes, pieceFor(room, count()));
      const std::size_t sizes = bytes <= mostByLines ? others() : rounds * count();
      EXPECT_THAT(written, Each(others() * bytes + sizes * kSizeOfSize))
          << bytes << " bytes, at most " << mostByLines << " by lines";
    }
  }
}

TEST_P(CostTest, AReduceScatterWritesOnlyWhatOthersReduce) {
  const Reduction reduction = Reduction::of(DType::UINT8, ReduceOp::BOR, ranks());
  for (const std::size_t bytes : kSizes) {
    for (const bool byLines : {false, true}) {
      if (byLines && bytes > mostOfReduceScatterLines(ranks(), 1)) {
        continue;
      }
      const auto written = bytesWritten(ranks(), [&](shm::Arena& arena) {
        const Bytes mine(bytes, kData);
        const std::vector<ConstBlock> give(count(), mine);
        Bytes out(bytes);
        (byLines ? reduceScatterLines : reduceScatterSlots)(arena, give, out, reduction);
      });
      EXPECT_THAT(written, Each(others() * bytes))
          << bytes << " bytes by " << (byLines ? "lines" : "slots");
      const auto inPlace = bytesWritten(ranks(), [&](shm::Arena& arena) {
        Bytes whole(count() * bytes, kData);
        std::vector<ConstBlock> give;
        for (std::size_t peer = 0; peer < count(); ++peer) {
          give.push_back(std::span(whole).subspan(peer * bytes, bytes));
        }
        const Block out =
            std::span(whole).subspan(static_cast<std::size_t>(arena.rank()) * bytes, bytes);
        (byLines ? reduceScatterLines : reduceScatterSlots)(arena, give, out, reduction);
      });
      EXPECT_THAT(inPlace, Each(others() * bytes)) << bytes << " bytes in place";
    }
  }
}

}  // namespace
}  // namespace unisono
