// Harbour: where other hosts reach the ranks of this process.
//
// One thread per process listens, has whoever connects prove that it belongs to the job, and hands
// the connection to the rank that it is for. It also answers how a rank is, so that who lost a
// connection learns why, whatever the rank's own threads are doing.
//
// Started by the first group that spans hosts; lives as long as the process. A forked child has
// none of it, and gets its own when it needs one.
//
// Thread safety: everything from any thread. A dock's methods run on the harbour's thread: they
// must not block, and are not called any more once its Berth is gone.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "net/address.hpp"
#include "net/secret.hpp"
#include "transport/mesh/wire.hpp"

namespace unisono::mesh {

/// A rank, as the harbour knows it.
class Dock {
 public:
  virtual ~Dock() = default;
  /// Somebody who has proven to be rank `note.from` has connected.
  virtual void arrive(const Note& note, UniqueFd connection) noexcept = 0;
  virtual Report report() const = 0;
};

/// Which rank a connection is for.
struct DockName {
  std::string id;  // of the group, 16 bytes
  std::uint32_t rank = 0;

  friend bool operator<(const DockName& a, const DockName& b) noexcept {
    return std::tie(a.id, a.rank) < std::tie(b.id, b.rank);
  }
};

class Harbour {
 public:
  /// Keeps a dock known, until it goes.
  class Berth {
   public:
    Berth() = default;
    Berth(Harbour& harbour, DockName name) : harbour_(&harbour), name_(std::move(name)) {}
    ~Berth() { leave(); }
    Berth(Berth&& other) noexcept;
    Berth& operator=(Berth&& other) noexcept;
    /// What the rank was in the end is still told for a while.
    void leave() noexcept;

   private:
    Harbour* harbour_ = nullptr;
    DockName name_;
    ForkGuard madeIn_;
  };

  /// This process's. Throws DistError (RESOURCE) when it cannot be started.
  static Harbour& instance();

  /// The port at which `address` is listened to from now on. Throws DistNetworkError.
  std::uint16_t listenAt(const SocketAddress& address);

  /// Connections for `name`, from those who know `key`, go to `dock`.
  [[nodiscard]] Berth moor(DockName name, const Key& key, Dock& dock);

 private:
  class Impl;
  Harbour();
  ~Harbour() = delete;  // leaked
  void cast(const DockName& name) noexcept;

  Impl* impl_;
};

}  // namespace unisono::mesh
