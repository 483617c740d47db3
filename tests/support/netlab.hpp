// Netlab: hosts that are only network namespaces, on a switch that loses what it is told to lose.
//
// Every host has an interface eth0 with an address of its own; their other ends are ports of a
// bridge, in a namespace that is the switch. Whatever happens to a port, no host is told: nothing
// answers any more, as when a cable is cut or a host loses its power.
//
// Needs the right to make namespaces, and the programs ip and tc; see whyNot().
//
// Thread safety: none. Calls put the calling thread into another namespace for a moment.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace unisono::test {

/// A network namespace, kept by a descriptor: one that forked children have too.
class Namespace {
 public:
  /// The calling thread's.
  static Namespace here();
  /// A new one.
  static Namespace make();

  ~Namespace();
  Namespace(Namespace&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Namespace& operator=(Namespace&&) = delete;

  /// From now on the calling thread is there.
  void enter() const;
  /// Where programs find it.
  std::string path() const;

 private:
  explicit Namespace(int fd) : fd_(fd) {}
  int fd_;
};

class Netlab {
 public:
  /// Why there can be none on this machine; empty when there can.
  static std::string whyNot();

  /// Throws std::runtime_error when something cannot be made.
  explicit Netlab(int hosts);

  int hosts() const { return static_cast<int>(hosts_.size()); }
  static std::string address(int host);

  /// From now on the calling thread is on `host`, and so are threads and processes that it starts.
  void enter(int host) const;

  /// Nothing comes from `host` or reaches it any more.
  void cut(int host) const;
  void heal(int host) const;
  /// What `from` sends to `to` is lost; the other way all is well.
  void loseWay(int from, int to) const;
  /// From now on `host` sends so much at most.
  void limit(int host, int megabitsPerSecond) const;
  /// From now on whatever `host` sends in larger bursts than the network takes is lost in part.
  void lose(int host) const;
  /// How many pieces of TCP `host` has sent again.
  long sentAgain(int host) const;

 private:
  const Namespace& at(int host) const { return hosts_.at(static_cast<std::size_t>(host)); }

  const Namespace switch_ = Namespace::make();
  std::vector<Namespace> hosts_;
};

}  // namespace unisono::test
