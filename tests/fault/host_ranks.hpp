// HostRanks: the ranks of a group, each a process on one of the hosts of a Netlab.
//
// The test and its ranks keep step: a rank says how far it is, and waits until the test has done
// something to the network.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "unisono/group/group.hpp"

#include "support/netlab.hpp"
#include "support/support.hpp"

namespace unisono::fault {

class HostRanks {
 public:
  /// What a rank can do besides its work.
  class Seat {
   public:
    Seat(const HostRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}
    int rank() const { return rank_; }
    int size() const { return ranks_.size(); }
    /// Meets the others; those who meet again do so at another place.
    Group join(Milliseconds timeout = std::chrono::seconds(30),
               const std::string& place = "store") const;
    /// Tells the test that it has come so far.
    void arrive() const;
    /// Waits for the test to let everybody go on; for the first time, or for the second.
    void awaitGo(int time = 0) const;

   private:
    const HostRanks& ranks_;
    const int rank_;
  };
  /// What a rank does; its errors are what it is told.
  using Body = std::function<void(const Seat&)>;

  /// What became of a rank.
  struct Told {
    std::string text;    // of its error; "done" when it had none, empty when it never ended
    double seconds = 0;  // since go(), or since the start
  };

  /// `perHost` ranks on every host, those of a host in a row. A host that does not answer for
  /// `netDead` is gone.
  HostRanks(const test::Netlab& lab, int perHost, Milliseconds netDead, const Body& body);
  /// Kills those who still live.
  ~HostRanks();
  HostRanks(const HostRanks&) = delete;
  HostRanks& operator=(const HostRanks&) = delete;

  int size() const { return size_; }
  int hostOf(int rank) const { return rank / perHost_; }
  /// Waits until `count` more ranks have arrived; all by default. False when that takes too long.
  bool awaitArrivals(int count = -1) const;
  /// Whether a rank has arrived that was not waited for.
  bool hasArrival() const;
  /// Lets everybody go on; twice at most.
  void go();
  /// Waits for all, and tells what became of them, by rank.
  std::vector<Told> outcomes();

 private:
  void live(int rank, Milliseconds netDead, const Body& body) const;
  std::string file(int rank) const;

  const test::Netlab& lab_;
  const int perHost_;
  const int size_;
  const test::TempDir folder_;
  int arrivals_[2] = {-1, -1};  // pipes
  int leave_[2][2] = {{-1, -1}, {-1, -1}};
  int times_ = 0;  // that they have been let go on
  std::int64_t since_;
  std::vector<pid_t> children_;
};

}  // namespace unisono::fault
