// A group whose memory another process writes anything into, between any two steps of a rank:
// headers, life words, the abort record, positions, posts, lines and pipes. The rank goes on or
// fails with a clear error; it never crashes, reads outside, or stays.
#include <cstddef>
#include <fuzzer/FuzzedDataProvider.h>

#include "base/str.hpp"
#include "fuzz/check.hpp"
#include "fuzz/group.hpp"
#include "transport/shm/arena.hpp"
#include "transport/shm/mail.hpp"

namespace {

using namespace unisono;

constexpr int kRanks = 3;
constexpr Milliseconds kPatience(1);

class Letter final : public Parcel {
 public:
  Callbacks ended(int source, std::exception_ptr failure) noexcept override {
    FUZZ_EXPECT(source >= -1 && source < kRanks);
    failure_ = std::move(failure);
    return {};
  }
  std::exception_ptr failure_;
  std::vector<std::byte> room;
};

std::string describePost(const shm::Post& post) {
  return str("call ", post.call);
}

/// Rank 0 of a group whose other ranks are hostile.
class Reader {
 public:
  Reader(fuzz::Group& group, FuzzedDataProvider& data)
      : group_(group),
        data_(data),
        arena_(group.segment(0), {.cores = 8, .globalRanks = {0, 1, 2}, .describe = describePost}),
        mail_(group.segment(0), 8, {0, 1, 2}) {}

  void run() {
    for (int steps = 0; steps < 12 && data_.remaining_bytes() > 0; ++steps) {
      try {
        step();
      } catch (const DistError& error) {
        judge(error);
      }
    }
  }

 private:
  static void judge(const DistError& error) {
    FUZZ_EXPECT(std::string_view(error.what()).find('\n') == std::string_view::npos);
    for (const int culprit : error.facts().culprits) {
      FUZZ_EXPECT(culprit >= 0 && culprit < kRanks);
    }
  }

  void step() {
    if (data_.ConsumeBool()) {
      const int rank = data_.ConsumeIntegralInRange(1, kRanks - 1);
      switch (data_.ConsumeIntegralInRange(0, 2)) {
        case 0:
          return write(rank);
        case 1:
          return writeWord(rank);
        default:
          return writeFrame(rank);
      }
    }
    const int peer = data_.ConsumeIntegralInRange(0, kRanks - 1);
    switch (data_.ConsumeIntegralInRange(0, 7)) {
      case 0:
        return arena_.begin({.name = "fuzz",
                             .signature = data_.ConsumeIntegral<std::uint8_t>(),
                             .timeout = kPatience});
      case 1:
        arena_.useSlots(64, 1);
        return arena_.awaitArrival(peer, 0);
      case 2:
        static_cast<void>(arena_.awaitLine(
            peer, data_.ConsumeIntegralInRange<std::size_t>(0, shm::kLlLines - 1)));
        return;
      case 3:
        return arena_.gather() ? arena_.publishGathered() : arena_.awaitGathered();
      case 4:
        FUZZ_EXPECT(!arena_.wait().whoIsMissing().empty());
        return arena_.end(data_.ConsumeBool());
      case 5:
        static_cast<void>(group_.segment(0).header().abort.read());
        return arena_.wait().checkFailed();
      default:
        return post(peer);
    }
  }

  /// Writes as another process would: anything, anywhere.
  void write(int rank) {
    const std::string bytes = data_.ConsumeRandomLengthString(72);
    const auto region = regionOf(rank);
    const std::size_t at = data_.ConsumeIntegralInRange<std::size_t>(0, region.size());
    std::memcpy(region.data() + at, bytes.data(), std::min(bytes.size(), region.size() - at));
  }

  /// Writes what could be true, as far as its form goes.
  void writeWord(int rank) {
    shm::RankBlock& block = group_.segment(0).block(rank);
    const auto seq = data_.ConsumeIntegralInRange<std::uint64_t>(0, 9);
    const auto round = data_.ConsumeIntegralInRange<std::uint64_t>(0, 2);
    switch (data_.ConsumeIntegralInRange(0, 5)) {
      case 0:
        return block.arrival.position.store(shm::positionOf(seq, round));
      case 1:
        return block.arrival.signature[seq % shm::kPosts].store(
            arena_.wait().operation().signature);
      case 2:
        return block.done.store(shm::positionOf(seq, round));
      case 3:
        return block.posts[seq % shm::kPosts].seq.store(seq);
      case 4:
        return group_.segment(0).header().finished.store(shm::positionOf(seq, round));
      default:
        return block.identity.state.store(static_cast<std::uint32_t>(seq));
    }
  }

  void writeFrame(int rank) {
    const auto pipe = pipeFrom(rank);
    const auto ring = pipe.subspan(sizeof(shm::PipeCounter));
    const shm::Frame frame{.kind = static_cast<shm::FrameKind>(data_.ConsumeIntegralInRange(0, 6)),
                           .tag = data_.ConsumeIntegralInRange(-1, 2),
                           .bytes = data_.ConsumeBool() ? data_.PickValueInArray<std::uint64_t>(
                                                              {0, 8, 100, 4096, 5000, 8192, 20'000})
                                                        : data_.ConsumeIntegral<std::uint64_t>(),
                           .number = data_.ConsumeIntegralInRange<std::uint64_t>(0, 2)};
    std::uint64_t& at = written_[static_cast<std::size_t>(rank)];
    if (const std::size_t place = at % ring.size(); place + sizeof frame <= ring.size()) {
      std::memcpy(ring.data() + place, &frame, sizeof frame);
    }
    const std::uint64_t payload = data_.ConsumeBool() ? frame.bytes : 0;
    at += sizeof frame + (payload + 31) / 32 * 32;
  }

  std::span<std::byte> regionOf(int rank) {
    shm::Segment& segment = group_.segment(0);
    const auto over = [](auto& object) { return std::as_writable_bytes(std::span(&object, 1)); };
    shm::RankBlock& block = segment.block(rank);
    switch (data_.ConsumeIntegralInRange(0, 6)) {
      case 0:
        return over(segment.header());
      case 1:
        return over(segment.header().abort);
      case 2:  // not what lies behind it, by which the C library finds the next word of a thread
        return over(block.life).first(sizeof(std::uint32_t));
      case 3:
        return over(block).subspan(offsetof(shm::RankBlock, identity));
      case 4:
        return over(segment.llArea(rank).lines[0][0]);
      case 5:
        return over(segment.header().gathered);
      default:
        return pipeFrom(rank).first(512);
    }
  }

  std::span<std::byte> pipeFrom(int rank) {
    const std::size_t bytes = shm::pipeBytes(kRanks);
    return group_.segment(0)
        .extend(shm::kFirstInbox, Deadline::never())
        .subspan(static_cast<std::size_t>(rank) * bytes, bytes);
  }

  void post(int peer) {
    const auto letter = std::make_shared<Letter>();
    letter->sends = data_.ConsumeBool();
    letter->peer = !letter->sends && data_.ConsumeBool() ? Parcel::kAnybody : peer;
    letter->tag = data_.ConsumeIntegralInRange(0, 2);
    letter->room.resize(data_.PickValueInArray<std::size_t>({0, 8, 100, 4096, 5000, 20'000}));
    letter->data = letter->room.data();
    letter->bytes = letter->room.size();
    letter->timeout = kPatience;
    letter->deadline = Deadline::after(kPatience);
    mail_.post(letter, true);
    mail_.help(*letter, systemClock().now() + kPatience);
    if (letter->failure_) {
      std::rethrow_exception(letter->failure_);
    }
  }

  fuzz::Group& group_;
  FuzzedDataProvider& data_;
  std::uint64_t written_[kRanks] = {};  // into the pipe from each rank
  shm::Arena arena_;
  shm::Mail mail_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static fuzz::Group group(kRanks);
  FuzzedDataProvider data(bytes, size);
  group.restore();
  for (std::uint32_t to = 0; to < kRanks; ++to) {
    const auto inbox = group.segment(0).extend(shm::kFirstInbox + to, Deadline::never());
    for (std::size_t from = 0; from < kRanks; ++from) {
      std::memset(inbox.data() + from * shm::pipeBytes(kRanks), 0, 1024);
    }
  }
  Reader(group, data).run();
  return 0;
}
