// The calls of a client, and a server that answers whatever it likes: every call returns what fits
// the question, or throws an error of one line; none hangs and none takes more memory than it was
// sent bytes.
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.hpp"
#include "fuzz/check.hpp"
#include "store/tcp/client.hpp"

namespace {

using namespace unisono;

constexpr Milliseconds kTimeout(1);
constexpr std::uint16_t kClosedPort = 1;  // where the client finds nobody when it connects again

const std::string kKey = "/k";
const std::vector<std::string> kKeys = {"/a", "/b", "/c"};
const std::vector<Bytes> kValues = {{1}, {}, {2, 3}};

/// Calls that change something without waiting for an answer.
void write(tcp::StoreClient& client, unsigned what) {
  switch (what % 4) {
    case 0:
      return client.set(kKey, "value", kTimeout);
    case 1:
      return client.append(kKey, "value", kTimeout);
    case 2:
      return client.push(kKey, "value", kTimeout);
    default:
      return client.multiSet(kKeys, kValues, kTimeout);
  }
}

/// Calls that are answered at once.
void ask(tcp::StoreClient& client, unsigned what) {
  switch (what % 10) {
    case 0:
      static_cast<void>(client.add(kKey, 7, kTimeout));
      break;
    case 1:
      static_cast<void>(client.compareSet(kKey, "a", "b", kTimeout));
      break;
    case 2:
      static_cast<void>(client.check(kKeys, kTimeout));
      break;
    case 3:
      static_cast<void>(client.remove(kKey, kTimeout));
      break;
    case 4:
      static_cast<void>(client.removePrefix(kKey, kTimeout));
      break;
    case 5:
      static_cast<void>(client.numKeys(kTimeout));
      break;
    case 6:
      static_cast<void>(client.stats(kTimeout));
      break;
    case 7:
      static_cast<void>(client.listKeys(kTimeout));
      break;
    case 8:
      static_cast<void>(client.queueLength(kKey, kTimeout));
      break;
    default:
      static_cast<void>(client.tryPop(kKey, kTimeout));
      break;
  }
}

/// Calls that wait.
void await(tcp::StoreClient& client, unsigned what) {
  const Milliseconds timeout(what % 2);  // 0 is another way through the code
  switch (what / 2 % 5) {
    case 0:
      static_cast<void>(client.get(kKey, timeout));
      break;
    case 1:
      FUZZ_EXPECT(client.multiGet(kKeys, timeout).size() == kKeys.size());
      break;
    case 2:
      client.wait(kKeys, timeout);
      break;
    case 3:
      static_cast<void>(client.pop(kKey, timeout));
      break;
    default:
      client.barrier(kKey, 2, timeout);
      break;
  }
}

void callOne(tcp::StoreClient& client, std::uint8_t what) {
  try {
    const unsigned which = what >> 2U;
    switch (what & 3U) {
      case 0:
        return write(client, which);
      case 1:
        return await(client, which);
      default:
        return ask(client, which);
    }
  } catch (const DistError& error) {
    FUZZ_EXPECT(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

/// A connection on which all answers have come already, and then the end.
std::unique_ptr<tcp::Connection> answering(std::string_view replies, int* server) {
  int ends[2];
  FUZZ_EXPECT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  const ssize_t sent = ::send(ends[1], replies.data(), replies.size(), MSG_NOSIGNAL);
  FUZZ_EXPECT(sent == static_cast<ssize_t>(replies.size()));
  FUZZ_EXPECT(::shutdown(ends[1], SHUT_WR) == 0);
  *server = ends[1];
  return std::make_unique<tcp::Connection>(Socket(UniqueFd(ends[0])), "fuzzer:0");
}

}  // namespace

/// The first byte says which kind of server it is, the second how many calls there are; then the
/// calls, then the answers.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const bool quiet = [] {
    setLogSink([](LogLevel, std::string_view) {});
    return true;
  }();
  static_cast<void>(quiet);
  if (size < 2) {
    return 0;
  }
  const std::size_t count = std::min<std::size_t>(bytes[1] % 16, size - 2);
  const std::basic_string_view<std::uint8_t> calls(bytes + 2, count);
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 2 + count, size - 2 - count);
  int server = -1;
  std::unique_ptr<tcp::Connection> connection = answering(rest.substr(0, 100'000), &server);
  const UniqueFd open(server);  // otherwise the client could not even send its requests
  connection->traits.native = (bytes[0] & 1U) != 0;
  connection->traits.listing = (bytes[0] & 3U) == 3;
  tcp::StoreClient client(
      {.host = "127.0.0.1", .port = kClosedPort, .syncWrites = (bytes[0] & 4U) != 0},
      std::move(connection));
  for (const std::uint8_t call : calls) {
    callOne(client, call);
  }
  return 0;
}
