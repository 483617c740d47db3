// Requests that rank 0's monitor gets from processes that are no ranks: each is answered or
// ignored, and what it claims of itself is checked before anything is written.
#include <cstring>
#include <fuzzer/FuzzedDataProvider.h>

#include "fuzz/check.hpp"
#include "fuzz/group.hpp"
#include "transport/root_record.hpp"

namespace {

using namespace unisono;

constexpr int kRanks = 3;

std::string requestOf(FuzzedDataProvider& data) {
  std::string request = data.PickValueInArray({"J", "E", "", "X"});
  if (request != "J" || data.ConsumeBool()) {
    return request + data.ConsumeRandomLengthString(64);
  }
  const JoinRequest join{
      .version = data.ConsumeBool() ? shm::kVersion : data.ConsumeIntegral<std::uint32_t>(),
      .size = data.ConsumeBool() ? kRanks : data.ConsumeIntegral<std::uint32_t>(),
      .rank = data.ConsumeBool() ? data.ConsumeIntegralInRange<std::uint32_t>(0, kRanks)
                                 : data.ConsumeIntegral<std::uint32_t>(),
      .settings = data.ConsumeBool() ? "" : data.ConsumeRandomLengthString(16),
      .process = data.ConsumeBool() ? "77 1 2 boot host" : data.ConsumeRandomLengthString(40)};
  request += join.encode();
  return request.substr(0, data.ConsumeIntegralInRange<std::size_t>(1, request.size()));
}

void judge(const LocalMessage& answer) {
  FUZZ_EXPECT(!answer.bytes.empty() && std::strchr("MRW", answer.bytes.front()) != nullptr);
  FUZZ_EXPECT(answer.fd.valid() == answer.bytes.starts_with('M'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static fuzz::Group group(kRanks);
  FuzzedDataProvider data(bytes, size);
  group.restore();
  shm::Segment& root = group.segment(0);
  root.header().formed.store(data.ConsumeBool() ? 1 : 0);
  for (int rank = 1; rank < kRanks; ++rank) {
    root.block(rank).identity.state.store(data.ConsumeIntegralInRange<std::uint32_t>(0, 5));
  }
  std::string cookie = group.cookie();
  if (data.ConsumeIntegralInRange(0, 7) == 0) {
    cookie = data.ConsumeRandomLengthString(40);
  }
  const std::string request = requestOf(data);
  const Result<LocalMessage> answer = askMonitor(Monitor::instance().socketName(), cookie, request,
                                                 Deadline::after(Milliseconds(5000)));
  if (answer.isOk()) {
    judge(answer.value());
  } else {
    // Not heard of: then the cookie was wrong.
    FUZZ_EXPECT(answer.failure().reason() == Reason::PEER_LEFT && cookie != group.cookie());
  }
  if (const auto cause = root.header().abort.read()) {
    FUZZ_EXPECT(cause->reason == Reason::CONFIG && cause->culprits.size() <= kRanks);
  }
  return 0;
}
