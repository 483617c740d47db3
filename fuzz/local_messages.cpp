// Messages with descriptors that no monitor would send, and memory that is none of a group's: they
// are refused with a reason, and no descriptor is left open.
#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "fuzz/check.hpp"
#include "net/local_socket.hpp"
#include "transport/shm/shared_mapping.hpp"

namespace {

using namespace unisono;

constexpr std::size_t kRanks = 2;
const std::string kCookie(32, 'c');

/// Memory for a header, sealed or not, of any size; its first bytes are the fuzzer's.
UniqueFd memoryOf(FuzzedDataProvider& data, std::uint64_t& honest) {
  const std::size_t right = shm::Layout{kRanks}.bytes();
  UniqueFd fd(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::size_t size =
      data.ConsumeBool() ? data.ConsumeIntegralInRange<std::size_t>(0, 2 * right) : right;
  FUZZ_EXPECT(::ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
  honest = size;
  shm::Header header{};
  std::memcpy(header.magic, shm::kMagic, sizeof shm::kMagic);
  header.version = shm::kVersion;
  header.ranks = kRanks;
  header.bytes = right;
  std::memcpy(header.cookie, kCookie.data(), sizeof header.cookie);
  std::string start(reinterpret_cast<const char*>(&header), 128);
  if (data.ConsumeBool()) {
    const std::string garbage = data.ConsumeRandomLengthString(64);
    start.replace(data.ConsumeIntegralInRange<std::size_t>(0, 64), garbage.size(), garbage);
  }
  FUZZ_EXPECT(::pwrite(fd.get(), start.data(), std::min(start.size(), size), 0) >= 0);
  const int seals =
      data.PickValueInArray({F_SEAL_SHRINK, 0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
                             F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_WRITE});
  ::fcntl(fd.get(), F_ADD_SEALS, seals);
  return fd;
}

UniqueFd anyDescriptor(FuzzedDataProvider& data, std::uint64_t& honest) {
  switch (data.ConsumeIntegralInRange(0, 4)) {
    case 4:
      return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    case 1:
      return UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    case 2:
      return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    default:
      return memoryOf(data, honest);
  }
}

/// Sends what the fuzzer says, by hand: LocalSocket would not.
void sendHostile(int to, FuzzedDataProvider& data) {
  // When there is no more data, all of these are what is right.
  std::vector<UniqueFd> fds(data.PickValueInArray<std::size_t>({1, 0, 2, 3, 4, 5, 6}));
  std::vector<int> numbers;
  std::uint64_t honest = 0;  // how long the last memory is
  for (UniqueFd& fd : fds) {
    fd = anyDescriptor(data, honest);
    numbers.push_back(fd.get());
  }
  std::string bytes = data.ConsumeBool() ? data.ConsumeRandomLengthString(4) : "M";
  const std::uint64_t sizes[] = {honest, shm::Layout{kRanks}.bytes(),
                                 data.ConsumeIntegral<std::uint64_t>()};
  if (const std::size_t said = data.ConsumeIntegralInRange<std::size_t>(0, 3); said < 3) {
    ByteWriter(bytes).number<std::uint64_t>(sizes[said]);
  }
  bytes += data.ConsumeBool() ? std::string(5000, 'x') : data.ConsumeRandomLengthString(64);
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(6 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!numbers.empty()) {
    header.msg_control = space;
    header.msg_controllen = CMSG_SPACE(numbers.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(numbers.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), numbers.data(), numbers.size() * sizeof(int));
  }
  static_cast<void>(::sendmsg(to, &header, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/// The number that the next descriptor would get.
int nextDescriptor() {
  const UniqueFd probe(::dup(STDERR_FILENO));
  return probe.get();
}

void receiveOne(LocalSocket& socket) {
  Result<LocalMessage> message = socket.receive(Deadline::after(Milliseconds(0)));
  if (!message.isOk()) {
    FUZZ_EXPECT(!message.failure().text().empty());
    return;
  }
  try {
    const auto mapping = shm::SharedMapping::adopt(std::move(message.value()), kRanks, kCookie,
                                                   "socket", "group 'fuzz'");
    FUZZ_EXPECT(mapping->memory().bytes().size() == shm::Layout{kRanks}.bytes());
    mapping->memory().bytes().back() = std::byte{1};  // all of it is there
  } catch (const DistError& error) {
    FUZZ_EXPECT(error.reason() == Reason::PROTOCOL || error.reason() == Reason::RESOURCE);
    FUZZ_EXPECT(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  ::setenv("UNISONO_LOG", "off", 1);
  const int before = nextDescriptor();
  {
    FuzzedDataProvider data(bytes, size);
    int ends[2];
    FUZZ_EXPECT(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    LocalSocket socket{UniqueFd(ends[0])};
    const UniqueFd hostile(ends[1]);
    const int messages = data.ConsumeIntegralInRange(1, 3);
    for (int i = 0; i < messages; ++i) {
      sendHostile(hostile.get(), data);
      receiveOne(socket);
    }
  }
  FUZZ_EXPECT(nextDescriptor() == before);
  return 0;
}
