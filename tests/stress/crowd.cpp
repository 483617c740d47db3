#include "stress/crowd.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/random.hpp"
#include "base/str.hpp"
#include "store/tcp/codec.hpp"

namespace unisono::stress {
namespace {

using tcp::Query;
using tcp::RequestWriter;

constexpr std::uint32_t kPortsOfAnAddress = 20'000;

sockaddr_in loopback(std::uint32_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x7f000000U | host);
  address.sin_port = htons(port);
  return address;
}

void sendAll(int fd, std::string_view bytes) {
  if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error(str("cannot send to the server: ", errnoDetail(errno)));
  }
}

std::string greeting() {
  return RequestWriter().begin(Query::VALIDATE).u32(tcp::kMagic).begin(Query::PING).u32(7).bytes();
}

/// How a client is bad. All but NOISE say hello first; SLOW_VALUE and NEVER_READS stay for as long
/// as they are let.
enum class Manner : std::uint8_t {
  NOISE,
  SLOW_VALUE,
  NEVER_READS,
  HUGE_LENGTH,
  KEYS_IN_PIECES,
  KEYS_BYTE_BY_BYTE,
};
static_assert(static_cast<std::size_t>(Manner::KEYS_BYTE_BY_BYTE) + 1 == Mob::kKinds);

constexpr std::size_t kManyKeys = 3000;
constexpr std::int64_t kSlowValue = 8 * 1024 * 1024;

struct Villain {
  UniqueFd fd;
  Manner manner = Manner::NOISE;
  std::string speech;  // which it sends piece by piece
  std::size_t said = 0;
};

const std::string& manyKeys() {
  static const std::string request = [] {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < kManyKeys; ++i) {
      keys.push_back(str("/never/", i));
    }
    return RequestWriter().begin(Query::WAIT).keys(keys).bytes();
  }();
  return request;
}

/// What one of that manner has to say, behind its greeting.
std::string speechOf(Manner manner, SeededRng& rng) {
  switch (manner) {
    case Manner::NOISE: {
      std::string noise(1 + rng.next() % 2000, '\0');
      for (char& byte : noise) {
        byte = static_cast<char>(rng.next());
      }
      return noise;
    }
    case Manner::SLOW_VALUE:
      return RequestWriter().begin(Query::SET).blob("/slow").i64(kSlowValue).bytes();
    case Manner::NEVER_READS:
      return RequestWriter().begin(Query::GET).blob(str("/", Mob::kLargeKey)).bytes();
    case Manner::HUGE_LENGTH:
      return RequestWriter().begin(Query::SET).i64(std::int64_t{1} << 62).bytes();
    case Manner::KEYS_IN_PIECES:
    case Manner::KEYS_BYTE_BY_BYTE:
      return manyKeys();
  }
  return {};
}

/// What it says when it has said that; nothing for those who then leave.
std::string moreOf(Manner manner, SeededRng& rng) {
  return manner == Manner::SLOW_VALUE    ? std::string(1000, 's')
         : manner == Manner::NEVER_READS ? speechOf(manner, rng)
                                         : std::string();
}

bool dripsIn(Manner manner) {
  return manner == Manner::SLOW_VALUE || manner == Manner::KEYS_BYTE_BY_BYTE;
}

/// How much of it goes into one packet.
std::size_t pieceOf(Manner manner) {
  return dripsIn(manner) ? 1 : manner == Manner::KEYS_IN_PIECES ? 1024 : std::string::npos;
}

void appear(Villain& villain, std::uint16_t port, SeededRng& rng) {
  villain.fd = connectFrom(1, port);
  const int one = 1;
  ::setsockopt(villain.fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const bool greets = villain.manner != Manner::NOISE || rng.next() % 2 == 0;
  villain.speech = (greets ? greeting() : "") + speechOf(villain.manner, rng);
  villain.said = 0;
  if (villain.manner == Manner::NEVER_READS) {  // else the kernel would take most of it for us
    const int little = 4096;
    ::setsockopt(villain.fd.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
  }
}

/// Sends the next piece; false when it is done, or the server has had enough of it.
bool misbehave(Villain& villain, SeededRng& rng) {
  if (villain.said == villain.speech.size()) {
    villain.speech = moreOf(villain.manner, rng);
    villain.said = 0;
  }
  if (villain.speech.empty()) {
    return false;
  }
  const std::size_t size = std::min(villain.speech.size() - villain.said, pieceOf(villain.manner));
  const ssize_t sent = ::send(villain.fd.get(), villain.speech.data() + villain.said, size,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
  villain.said += sent > 0 ? static_cast<std::size_t>(sent) : 0;
  return sent >= 0 || errno == EAGAIN;
}

void leave(Villain& villain) {
  // With an answer that was never taken the end would be a reset, and drop what is on its way.
  std::array<char, 64> answer{};
  static_cast<void>(::recv(villain.fd.get(), answer.data(), answer.size(), MSG_DONTWAIT));
  villain.fd.reset();
}

/// What one villain does in its turn: a piece, or several if they are as small as can be.
void provoke(Villain& villain, std::uint16_t port, SeededRng& rng) {
  if (!villain.fd.valid()) {
    appear(villain, port, rng);
  }
  for (int left = dripsIn(villain.manner) ? 32 : 1; left > 0; --left) {
    if (!misbehave(villain, rng)) {
      leave(villain);
      return;
    }
  }
}

}  // namespace

UniqueFd connectFrom(std::uint32_t host, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in from = loopback(host, 0);
  const sockaddr_in to = loopback(1, port);
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0 ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    throw std::runtime_error(str("cannot connect to port ", port, ": ", errnoDetail(errno)));
  }
  return fd;
}

Crowd::Crowd(std::uint16_t port, std::size_t count) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  const std::string hello = greeting();
  for (std::size_t i = 0; i < count; ++i) {
    const auto host = static_cast<std::uint32_t>(2 + i / kPortsOfAnAddress);
    clients_.push_back(connectFrom(host, port));
    sendAll(clients_.back().get(), hello);
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t echo = 0;
    if (::recv(clients_[i].get(), &echo, sizeof echo, MSG_WAITALL) != sizeof echo) {
      throw std::runtime_error(str("client ", i, " was not greeted: ", errnoDetail(errno)));
    }
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, clients_[i].get(), &event);
  }
}

void Crowd::waitFor(std::string_view key) {
  const std::vector<std::string> keys = {std::string(key)};
  const std::string request = RequestWriter().begin(Query::WAIT).keys(keys).bytes();
  for (const UniqueFd& client : clients_) {
    sendAll(client.get(), request);
  }
}

std::size_t Crowd::takeWoken() {
  std::array<epoll_event, 1024> events;
  std::size_t woken = 0;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 20);
  for (int i = 0; i < count; ++i) {
    char byte = 0;
    const int fd = clients_[events[static_cast<std::size_t>(i)].data.u64].get();
    woken += ::recv(fd, &byte, 1, MSG_DONTWAIT) == 1 ? 1U : 0U;
  }
  return woken;
}

Mob::Mob(std::uint16_t port, std::size_t count, std::uint64_t seed)
    : thread_([this, port, count, seed](std::stop_token stop) { run(stop, port, count, seed); }) {}

Mob::~Mob() = default;

void Mob::run(std::stop_token stop, std::uint16_t port, std::size_t count, std::uint64_t seed) {
  // They attack the server, not the processor that it and its honest clients run on: so much work,
  // then a pause.
  constexpr std::chrono::microseconds kTurn(1000);
  constexpr std::chrono::microseconds kPause(3000);
  SeededRng rng(seed);
  std::vector<Villain> villains(count);
  for (std::size_t i = 0; i < count; ++i) {
    villains[i].manner = static_cast<Manner>(i % Mob::kKinds);
  }
  for (std::size_t next = 0; !stop.stop_requested();) {  // ends when the object goes
    const TimePoint end = systemClock().now() + kTurn;
    for (std::size_t i = 0; i < count && systemClock().now() < end; ++i) {
      Villain& villain = villains[next++ % count];
      try {
        provoke(villain, port, rng);
        ++misdeeds_;
      } catch (const std::runtime_error&) {
        villain.fd.reset();  // no connection this time
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace unisono::stress
