// StoreCollectives: control collectives over any store.
//
//   StoreCollectives ranks(store, rank, worldSize);
//   const std::vector<Bytes> hosts = ranks.allGather("hosts", hostName);
//   ranks.barrier("ready", 30s);
//
// Keys and values in the store are those of PyTorch 2.13, whose ranks may take part over a
// TCPStore or FileStore of either side.
#pragma once

#include <memory>

#include "unisono/control/control_collectives.hpp"

namespace unisono {

/// Errors, beside those of ControlCollectives: DistStoreError (TIMEOUT) when ranks do not come in
/// time, with the missing ones as its culprits where it is known who they are; what the store
/// throws, such as DistNetworkError (STORE_LOST) as soon as the store is gone. UsageError when more
/// callers come to a barrier than there are ranks: the key is one of another object, or of an
/// earlier job. Put a PrefixStore around a store that others use as well.
///
/// A collective that has failed cannot be repeated under its key. What it kept in the store stays
/// there, as that of one that succeeded does; unless all ranks have UNISONO_CC_CLEANUP=1 in their
/// environment: then the last one to leave a collective deletes its keys.
///
/// The timeout of the store itself is neither used for waiting nor changed.
class UNISONO_API StoreCollectives final : public ControlCollectives {
 public:
  StoreCollectives(StorePtr store, int rank, int worldSize);
  ~StoreCollectives() override;

  using ControlCollectives::allGather;
  using ControlCollectives::broadcastSend;
  using ControlCollectives::gatherRecv;
  using ControlCollectives::gatherSend;

  void barrier(std::string_view key, Timeout timeout = {}, bool blocking = true) override;
  void broadcastSend(std::string_view key, BytesView data, Timeout timeout = {}) override;
  Bytes broadcastRecv(std::string_view key, Timeout timeout = {}) override;
  void gatherSend(std::string_view key, BytesView data, Timeout timeout = {}) override;
  std::vector<Bytes> gatherRecv(std::string_view key, BytesView data,
                                Timeout timeout = {}) override;
  Bytes scatterSend(std::string_view key, std::span<const Bytes> data,
                    Timeout timeout = {}) override;
  Bytes scatterRecv(std::string_view key, Timeout timeout = {}) override;
  std::vector<Bytes> allGather(std::string_view key, BytesView data, Timeout timeout = {}) override;
  std::int64_t allSum(std::string_view key, std::int64_t value, Timeout timeout = {}) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono
