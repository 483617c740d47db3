// Meeting: where the ranks of a job find each other, and the secret that keeps others away.
//
// The launcher of node 0 serves the store, so that it outlives every rank. When the job has a
// secret, the ranks of a node reach it through a Relay on loopback: that of PyTorch's clients
// nobody asks for the secret. A job of one node always has one; several nodes have that which the
// user has given to all of them, or none.
//
// Thread safety: for one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launch/plan.hpp"
#include "net/secret.hpp"

namespace unisono::tcp {
class StoreServer;
}

namespace unisono::launch {

class Relay;

class Meeting {
 public:
  /// Makes the secret, in the file `secretFile`, if there is none, and listens. Throws what those
  /// throw: UsageError (CONFIG) for a secret that cannot be used, DistNetworkError.
  Meeting(const Job& job, const std::string& secretFile);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// What ranks are to know.
  const Places& places() const noexcept { return places_; }

  /// A new store, empty, in place of the one before, if it is served here.
  void renew();

  /// Throws DistAuthError once it is known that the store of another node has another secret. To be
  /// called again and again.
  void check() const;

  /// How many are connected to the store, if it is served here.
  std::size_t connectionCount() const;

 private:
  void makeSecret(const std::string& path);
  void serve();
  void search();

  class Search;

  const Job& job_;
  std::string secretFile_;  // of our making
  std::optional<Key> key_;
  std::unique_ptr<tcp::StoreServer> server_;
  std::unique_ptr<Relay> relay_;
  std::shared_ptr<Search> search_;  // null: the store is here
  Places places_;
};

}  // namespace unisono::launch
