// What a client makes of replies that no server would send.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/check.hpp"
#include "store/tcp/connection.hpp"

namespace {

using namespace unisono;

/// Reads one thing from the connection.
void readOne(tcp::Connection& connection, const tcp::Call& call, int what) {
  switch (what) {
    case 0:
      static_cast<void>(connection.byte(call));
      break;
    case 1:
      static_cast<void>(connection.u32(call));
      break;
    case 2:
      static_cast<void>(connection.i64(call));
      break;
    case 3:
      static_cast<void>(connection.blob(call));
      break;
    case 4:
      connection.verdict(call);
      break;
    case 5:
      static_cast<void>(connection.refusal(call));
      break;
    default:
      static_cast<void>(connection.byteBy(Deadline::after(Milliseconds(0)), call));
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  int ends[2];
  FUZZ_EXPECT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  std::vector<int> reads(data.ConsumeIntegralInRange<std::size_t>(1, 16));
  for (int& read : reads) {
    read = data.ConsumeIntegralInRange(0, 6);
  }
  const std::string replies = data.ConsumeRemainingBytesAsString();
  const std::size_t sent = std::min<std::size_t>(replies.size(), 100'000);
  FUZZ_EXPECT(::send(ends[1], replies.data(), sent, MSG_NOSIGNAL | MSG_DONTWAIT) ==
                  static_cast<ssize_t>(sent) ||
              sent == 0);
  ::close(ends[1]);
  tcp::Connection connection(Socket(UniqueFd(ends[0])), "fuzzer:0");
  const tcp::Call call("get", {}, Milliseconds(1000));
  try {
    for (const int read : reads) {
      readOne(connection, call, read);
    }
  } catch (const DistError& error) {
    FUZZ_EXPECT(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
