// The server core: bytes of several connections in any pieces, connections that come and go, time
// that passes, replies that are taken in parts. When all have gone, nothing may be left.
#include <fuzzer/FuzzedDataProvider.h>

#include "fuzz/check.hpp"
#include "simulation/wire.hpp"
#include "store/tcp/core.hpp"

namespace {

using namespace unisono;
using tcp::ConnectionId;

/// Small, so that limits are reached.
StoreLimits smallLimits() {
  StoreLimits limits;
  limits.keyBytes = 64;
  limits.valueBytes = 4096;
  limits.keysPerCommand = 16;
  limits.commandBytes = 16'384;
  limits.contentBytes = 65'536;
  limits.keys = 64;
  limits.queueLength = 16;
  limits.unvalidated = 3;
  limits.unsentBytes = 32'768;
  limits.unsentPause = 1024;
  limits.unsentTotal = 65'536;
  limits.partialTotal = 32'768;
  limits.slice = 2;
  limits.look = 5;
  return limits;
}

class Feeder {
 public:
  explicit Feeder(FuzzedDataProvider& data) : data_(data), core_(smallLimits()) {}

  void run() {
    while (data_.remaining_bytes() > 0) {
      const ConnectionId id = data_.ConsumeIntegralInRange<ConnectionId>(1, 5);
      switch (data_.ConsumeIntegralInRange(0, 9)) {
        case 0:
          close(id);
          break;
        case 1:
          now_ += std::chrono::milliseconds(data_.ConsumeIntegralInRange(0, 40'000));
          core_.tick(now_);
          break;
        case 2:
          feed(id, hello());
          break;
        case 3:
        case 4:
          feed(id, command());
          break;
        default:
          feed(id, data_.ConsumeRandomLengthString(600));
          break;
      }
      flush();
    }
    for (ConnectionId id = 1; id <= 5; ++id) {
      close(id);
    }
    while (core_.work(now_)) {}
    FUZZ_EXPECT(core_.connectionCount() == 0);
    FUZZ_EXPECT(core_.table().waitCount() == 0);
    FUZZ_EXPECT(core_.unsentBytes() == 0);
    FUZZ_EXPECT(core_.partialBytes() == 0);
    FUZZ_EXPECT(core_.table().contentBytes() <= smallLimits().contentBytes);
  }

 private:
  static std::string hello() {
    return tcp::RequestWriter().begin(tcp::Query::VALIDATE).u32(tcp::kMagic).bytes();
  }

  /// One that makes sense, but for its sizes and perhaps its end.
  std::string command() {
    const simulation::Kind& kind = simulation::kinds()[data_.ConsumeIntegralInRange<std::size_t>(
        0, simulation::kinds().size() - 1)];
    simulation::Call call{
        .event = {}, .query = kind.query, .answered = kind.answered, .waits = kind.waits};
    call.event.op = kind.op;
    call.event.number = data_.ConsumeIntegral<std::int64_t>();
    call.timeout = data_.ConsumeIntegralInRange<std::int64_t>(0, 50'000'000);
    const bool isList = kind.query == tcp::Query::MULTI_GET ||
                        kind.query == tcp::Query::MULTI_SET || kind.query == tcp::Query::CHECK ||
                        kind.query == tcp::Query::WAIT;
    const std::size_t keys = isList ? data_.ConsumeIntegralInRange<std::size_t>(0, 17) : kind.keys;
    for (std::size_t i = simulation::valuesOf(kind.op, keys); i > 0; --i) {
      call.event.values.push_back(value());
    }
    for (std::size_t i = 0; i < keys; ++i) {
      call.event.keys.push_back(data_.PickValueInArray<std::string>(
          {"", "a", "b", "c", std::string(64, 'd'), std::string(65, 'e')}));
    }
    const std::string bytes = encode(call).bytes();
    return data_.ConsumeBool()
               ? bytes
               : bytes.substr(0, data_.ConsumeIntegralInRange<std::size_t>(0, bytes.size()));
  }

  std::string value() {
    if (data_.ConsumeBool()) {
      const auto size = data_.PickValueInArray<std::size_t>({0, 1, 1000, 4096, 4097, 20'000});
      return std::string(size, 'v');
    }
    return data_.PickValueInArray<std::string>(
        {"", "7", "+7", "007", "-9223372036854775808", "9223372036854775808", "7 ", "x"});
  }

  void feed(ConnectionId id, const std::string& bytes) {
    if (!open_[id]) {
      core_.open(id, "fuzzer", now_);
      open_[id] = true;
    }
    core_.receive(id, bytes, now_);
  }

  void close(ConnectionId id) {
    if (open_[id]) {
      core_.close(id);
      open_[id] = false;
    }
  }

  void flush() {
    core_.work(now_);
    for (const ConnectionId id : core_.takeTouched()) {
      const std::size_t size = core_.unsent(id).size();
      if (size > 0) {
        core_.sent(id, data_.ConsumeIntegralInRange<std::size_t>(0, size), now_);
      }
      if (core_.closing(id) != nullptr) {
        close(id);
      }
    }
  }

  FuzzedDataProvider& data_;
  tcp::StoreCore core_;
  TimePoint now_{};
  bool open_[6] = {};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  Feeder(data).run();
  return 0;
}
