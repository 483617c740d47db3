#include "stress/crowd.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <netinet/in.h>
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

/// What a bad client sends next. Some keep it up for as long as they are let.
enum class Manner : std::uint8_t {
  NOISE,
  SLOW_REQUEST,
  NEVER_READS,
  HUGE_LENGTH,
  KEYS_BY_THE_BYTE
};
constexpr std::uint64_t kManners = 5;

struct Villain {
  UniqueFd fd;
  Manner manner = Manner::NOISE;
  std::string rest;  // of what it is sending piece by piece
};

std::string manyKeys(std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) {
    keys.push_back(str("/never/", i));
  }
  return RequestWriter().begin(Query::WAIT).keys(keys).bytes();
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
    case Manner::SLOW_REQUEST:
      return RequestWriter().begin(Query::SET).blob("/slow").blob(std::string(4000, 's')).bytes();
    case Manner::NEVER_READS: {
      RequestWriter request;
      for (int i = 0; i < 50; ++i) {
        request.begin(Query::PING).u32(static_cast<std::uint32_t>(i));
      }
      return request.bytes();
    }
    case Manner::HUGE_LENGTH:
      return RequestWriter().begin(Query::SET).i64(std::int64_t{1} << 62).bytes();
    case Manner::KEYS_BY_THE_BYTE:
      return manyKeys(3000);
  }
  return {};
}

/// Sends the next piece; false when the server has had enough of it.
bool misbehave(Villain& villain, std::uint16_t port, SeededRng& rng) {
  if (!villain.fd.valid()) {
    villain.fd = connectFrom(1, port);
    villain.manner = static_cast<Manner>(rng.next() % kManners);
    villain.rest = (rng.next() % 4 == 0 ? "" : greeting()) + speechOf(villain.manner, rng);
  }
  const bool byTheByte =
      villain.manner == Manner::SLOW_REQUEST || villain.manner == Manner::KEYS_BY_THE_BYTE;
  if (villain.rest.empty() && villain.manner == Manner::NEVER_READS) {
    villain.rest = speechOf(villain.manner, rng);
  }
  const std::size_t size =
      byTheByte ? std::min<std::size_t>(villain.rest.size(), 1) : villain.rest.size();
  const ssize_t sent =
      ::send(villain.fd.get(), villain.rest.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
  villain.rest.erase(0, sent > 0 ? static_cast<std::size_t>(sent) : 0);
  const bool refused = sent < 0 && errno != EAGAIN;
  const bool leaves = villain.rest.empty() && villain.manner != Manner::NEVER_READS;
  return !refused && !leaves;
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
  SeededRng rng(seed);
  std::vector<Villain> villains(count);
  while (!stop.stop_requested()) {  // ends when the object goes
    for (Villain& villain : villains) {
      try {
        if (!misbehave(villain, port, rng)) {
          villain.fd.reset();
        }
        ++misdeeds_;
      } catch (const std::runtime_error&) {
        villain.fd.reset();  // no connection this time
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace unisono::stress
