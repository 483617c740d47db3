// Ferry: carries the messages of a Mail by TCP.
//
// Mail's pipes are memory of this process. What is put into one is sent on the link to that rank;
// what comes on the link from a rank is put into the other. Both ways a link takes no more than the
// pipe at its end has room for, so what nobody takes holds its sender back. Short messages that the
// receiver has to keep are counted by both ends: it tells the sender when it has given some away.
// Long ones, which were asked for, go from the memory of who sends to that of who receives.
//
// Nothing moves but in carry(), on the thread that drives the Mail.
//
// Thread safety: as Carrier.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <poll.h>
#include <span>
#include <sys/types.h>
#include <vector>

#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "transport/carrier.hpp"
#include "transport/mesh/mesh.hpp"

namespace unisono::mesh {

class Ferry : public Carrier {
 public:
  /// `mesh`: the links of messages, Mesh::mail().
  explicit Ferry(Mesh& mesh);
  ~Ferry() override;
  Ferry(const Ferry&) = delete;
  Ferry& operator=(const Ferry&) = delete;

  int rank() const noexcept override { return mesh_.rank(); }
  int size() const noexcept override { return mesh_.size(); }
  const std::string& group() const noexcept override { return mesh_.group(); }
  /// Has a link made, when it is the first to that rank: what is put into the pipe waits for it.
  shm::Pipe pipe(int from, int to, Deadline deadline) override;
  AbortCause whyNotOpen(int from, int to) override;
  bool carries() const noexcept override { return true; }
  bool carry(Cargo& cargo) override;
  void listen() override;
  bool wasRung() const noexcept override { return rung_; }
  bool owes() const noexcept override;
  void withdraw() noexcept override { isWithdrawn_ = true; }
  void ring(int peer) noexcept override { rung_ = rung_ || peer != rank(); }
  void wake() noexcept override { mesh_.ring(); }
  std::unique_ptr<Waitable> sleeper() override;
  void beforeSleep() override;
  PeerState stateOf(int peer) override;
  bool hasCrashed(int peer) override;
  void expectAnybody() override;
  std::string describe(int peer) const override { return mesh_.describe(peer); }
  int processOf(int peer) const override;
  bool isStopped(int peer) const override { return mesh_.isStopped(peer); }
  const AbortRecord& record() const noexcept override { return mesh_.record(); }
  std::optional<AbortCause> cause() const override { return mesh_.cause(); }
  AbortCause fail(AbortCause cause) noexcept override { return mesh_.fail(cause); }
  std::vector<int> culpritsNow(const AbortCause& cause) const override {
    return mesh_.culpritsNow(cause);
  }

 private:
  class Sleeper;
  struct alignas(128) Chunk {
    std::byte bytes[128];
  };
  using Memory = std::vector<Chunk>;  // of a pipe
  /// A link that a thread is making: nobody else waits for a rank that is slow to answer.
  struct Dial {
    Socket socket = {};
    std::optional<AbortCause> failure = {};
    std::atomic<bool> isOver{false};  // with it goes what was found
    Mutex mutex = {};
    CondVar changed = {};
    Thread thread = {};  // last: it uses the others
  };
  /// What goes to and comes from one rank.
  struct Route {
    Memory outMemory;
    Memory inMemory;
    shm::Pipe out;  // where Mail's frames are taken from
    shm::Pipe in;   // where Mail takes frames from
    bool isConnected = false;
    bool isDialing = false;          // a link is being made
    std::vector<std::byte> leaving;  // frames, of which `left` bytes are sent
    std::size_t left = 0;
    std::size_t partLeft = 0;         // bytes of a long message that are to follow them
    std::vector<std::byte> arriving;  // of which the first `got` bytes have come
    std::size_t got = 0;
    std::size_t partDue = 0;       // bytes of a long message that are to come before all else,
    std::uint64_t partNumber = 0;  // and which it is
    bool isFull = false;           // `in` has no room for what has come
    std::uint64_t sent = 0;        // of short messages, with what keeping them takes; of those
    std::uint64_t taken = 0;       // the peer says that it does not keep them any more
    std::uint64_t received = 0;    // the same of the peer's messages; what is not kept of them, as
    std::uint64_t told = 0;        // it was told
    bool isGone = false;           // no link can be made to it

    bool isLoaded() const noexcept { return left < leaving.size() || partLeft > 0; }
    bool owes() const noexcept {
      return (isConnected || isDialing) && (isLoaded() || (out.isOpen() && out.hasFrame()));
    }
    /// What is not kept any more of what was received.
    std::uint64_t given() const noexcept { return received - std::min(in.kept(), received); }
  };

  /// Runs `action` in a turn; false when it has ended the group.
  template <typename Action>
  bool inTurn(Action action);
  shm::Pipe open(Memory& memory) const;
  bool sendTo(int peer, Link& link, Cargo& cargo);
  static ssize_t sendLoaded(Route& to, const Link& link, std::span<const std::byte> part);
  void load(int peer, Cargo& cargo);
  bool receiveFrom(int peer, Link& link, Cargo& cargo);
  ssize_t receiveSome(int peer, const Link& link, Cargo& cargo);
  bool unload(int peer, Link& link, Cargo& cargo);
  std::size_t unloadFrames(int peer, Link& link, Cargo& cargo);
  void beginPart(int peer, const MailHead& head, Cargo& cargo);
  std::span<std::byte> roomFor(int peer, Cargo& cargo);
  void partCame(int peer, std::size_t bytes, Cargo& cargo);
  void hearNews(int peer, Link& link, const Frame::Bytes& bytes, std::size_t next);
  static bool isCreditDue(const Route& route);
  void dial(int peer, Deadline deadline);
  bool awaitAnswer(int peer, Deadline deadline);
  void answered(int peer);
  void hearCredit(int peer, std::uint64_t taken);
  void endOf(Link& link, bool mayLeave = true);
  void lookAt(Link& link);
  void askHosts();
  short eventsOf(const Link& link) const noexcept;
  [[noreturn]] void makesNoSense(int peer) const;
  Route& route(int peer) { return routes_[static_cast<std::size_t>(peer)]; }
  const Route& route(int peer) const { return routes_[static_cast<std::size_t>(peer)]; }

  Mesh& mesh_;
  const std::size_t pipeBytes_;
  std::vector<Route> routes_;  // by rank
  std::map<int, Dial> dials_;  // by rank
  std::atomic<bool> ends_{false};
  bool rung_ = false;
  bool isWithdrawn_ = false;
  std::vector<pollfd> entries_;  // of the next sleep
  Deadline askHostsAt_ = Deadline::after(Milliseconds(0));
};

}  // namespace unisono::mesh
