// ControlCollectives: what the ranks of a job tell each other before, beside or without a group.
//
// A few bytes from each rank, by blocking calls that name who has not come. They are for setting
// a job up and for agreeing on what goes on in it; tensors go through a Group.
//
// Every call of all ranks that belong together names the same key. A key serves once: an object
// refuses one that it has seen, whatever the call was and however that ended.
//
// Thread safety: every method may be called from any thread; calls do not hold each other up.
//
// Timeouts: calls that wait give up after the timeout they are given; without one after
// UNISONO_TIMEOUT, or kDefaultTimeout. 0 means one look; a negative timeout is a UsageError.
//
// Errors: UsageError when the arguments are wrong, or the key has been used; what the
// implementation says of its own when ranks do not come, or cannot be asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/store/store.hpp"

namespace unisono {

class UNISONO_API ControlCollectives {
 public:
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(5);
  using Timeout = std::optional<std::chrono::milliseconds>;

  ControlCollectives() = default;
  virtual ~ControlCollectives();
  ControlCollectives(const ControlCollectives&) = delete;
  ControlCollectives& operator=(const ControlCollectives&) = delete;

  /// Waits until all ranks have come. One that calls it with `blocking` false only says that it
  /// has come, and does not wait for the others.
  virtual void barrier(std::string_view key, Timeout timeout = {}, bool blocking = true) = 0;

  /// One rank sends, all others receive the same.
  virtual void broadcastSend(std::string_view key, BytesView data, Timeout timeout = {}) = 0;
  void broadcastSend(std::string_view key, std::string_view data, Timeout timeout = {});
  virtual Bytes broadcastRecv(std::string_view key, Timeout timeout = {}) = 0;

  /// One rank receives what each of the others sends, by rank, its own `data` among it.
  virtual void gatherSend(std::string_view key, BytesView data, Timeout timeout = {}) = 0;
  void gatherSend(std::string_view key, std::string_view data, Timeout timeout = {});
  virtual std::vector<Bytes> gatherRecv(std::string_view key, BytesView data,
                                        Timeout timeout = {}) = 0;
  std::vector<Bytes> gatherRecv(std::string_view key, std::string_view data, Timeout timeout = {});

  /// One rank sends to each its part of `data`, which has one for every rank; it returns its own.
  virtual Bytes scatterSend(std::string_view key, std::span<const Bytes> data,
                            Timeout timeout = {}) = 0;
  virtual Bytes scatterRecv(std::string_view key, Timeout timeout = {}) = 0;

  /// What each rank has sent, by rank, to all of them.
  virtual std::vector<Bytes> allGather(std::string_view key, BytesView data,
                                       Timeout timeout = {}) = 0;
  std::vector<Bytes> allGather(std::string_view key, std::string_view data, Timeout timeout = {});

  /// The sum of the values of all ranks.
  virtual std::int64_t allSum(std::string_view key, std::int64_t value, Timeout timeout = {}) = 0;
};

}  // namespace unisono
