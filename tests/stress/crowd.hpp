// Crowd: very many clients of one server, most of them idle.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"

namespace unisono::stress {

class Crowd {
 public:
  /// Connects `count` clients, each of which has been greeted when this returns. They come from
  /// many addresses of this host, because one address has too few ports.
  Crowd(std::uint16_t port, std::size_t count);

  std::size_t size() const { return clients_.size(); }

  /// Lets everyone wait for `key`; returns when all requests have been sent.
  void waitFor(std::string_view key);

  /// How many have been woken by now. Each counts once.
  std::size_t takeWoken();

 private:
  UniqueFd epoll_;
  std::vector<UniqueFd> clients_;
};

/// Clients that behave as badly as they can, on a thread of their own, until destroyed: they send
/// noise, a value byte by byte, requests whose replies they do not take, lengths beyond reason, and
/// long lists of keys in small pieces. As many are of each kind.
class Mob {
 public:
  static constexpr std::size_t kKinds = 6;
  /// What those ask for who take no replies; to be set before.
  static constexpr std::string_view kLargeKey = "large";
  static constexpr std::size_t kLargeValue = 64 * 1024;

  Mob(std::uint16_t port, std::size_t count, std::uint64_t seed);
  ~Mob();
  Mob(const Mob&) = delete;
  Mob& operator=(const Mob&) = delete;

  std::size_t misdeeds() const { return misdeeds_.load(); }

 private:
  void run(std::stop_token stop, std::uint16_t port, std::size_t count, std::uint64_t seed);

  std::atomic<std::size_t> misdeeds_{0};
  std::jthread thread_;
};

/// A blocking connection from 127.`host`; throws when there is none.
UniqueFd connectFrom(std::uint32_t host, std::uint16_t port);

}  // namespace unisono::stress
