// Mesh: the connections of one rank to the others of its group, and what is known of them.
//
// A link carries data one way, from the rank that made it; the other way it carries nothing but the
// end. Links are made when they are first used. Where data is awaited from a rank that has not
// connected yet, a watch tells whether it still lives.
//
// A group that fails is told so along its links: a rank that learns the cause tells it to all whom
// it is connected to. A link that ends without a word is a question, which the harbour of the
// process at the other end answers; where there is none, that process is gone.
//
// Messages have links of their own, mail(), so that they and operations do not wait for each other.
// What is known of the group is the same for both.
//
// Thread safety: fail(), cause(), leave() and report() from any thread; all else by one thread at a
// time, the one that drives the group's operations, and inside a Mesh::Turn.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "base/process.hpp"
#include "net/socket.hpp"
#include "transport/mesh/call_log.hpp"
#include "transport/mesh/harbour.hpp"
#include "transport/mesh/roster.hpp"

namespace unisono::mesh {

struct MeshOptions {
  MeetOptions meet;
  std::string settings;  // what all members must have set alike
  Hearsay hearsay = {};
  std::vector<HostPort> addresses = {};  // what Mesh::listen() has given; empty: it is done here
};

/// A connection to another rank.
struct Link {
  int peer = 0;
  Purpose purpose = Purpose::LINK;
  bool outgoing = false;
  Socket socket;
  const void* sender = nullptr;    // whose block is going out by half
  const void* receiver = nullptr;  // whose block has come in by half
  bool hasLeft = false;            // the peer has said so, at
  TimePoint leftAt = {};
  bool isQuiet = false;  // what is there to be read, nobody wants now
  bool hasTold = false;  // the peer has said why the group has failed
};

class Mesh final : public Dock {
 public:
  /// Listens for other ranks, and says where they reach this process. It is what takes longest of
  /// forming a group, and needs nobody: who has to wait for others does it before. Throws
  /// UsageError (CONFIG) for settings that do not work.
  static std::vector<HostPort> listen(const StorePtr& store, Deadline deadline);
  /// Meets the others. Throws as meet() and listen().
  static std::unique_ptr<Mesh> form(const MeshOptions& options);

  /// leave()s.
  ~Mesh() override;
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const noexcept { return options_.rank; }
  int size() const noexcept { return options_.size; }
  const std::string& group() const noexcept { return options_.group; }
  const Roster& roster() const noexcept { return roster_; }
  /// How many of the ranks are on this host.
  int ranksHere() const;
  /// "rank 3", as the world counts.
  std::string nameOf(int rank) const;
  std::vector<int> inWorld(const std::vector<int>& ranks) const;
  /// "process 77 on node3".
  std::string placeOf(int rank) const;
  /// "process 77, state T stopped" of a rank of this host, "process 77 on node3" of others; with
  /// the state where this process can see it.
  std::string describe(int rank) const;
  /// The process of rank `peer`, if this one can see it.
  std::optional<pid_t> visibleProcess(int peer) const;
  /// Whether it can be seen to have crashed, and to be dumping core.
  bool isDumpingCore(int peer) const;
  /// Whether it can be seen to be stopped, by a signal or a debugger.
  bool isStopped(int peer) const;

  /// Whoever uses links holds one. Where the group has failed meanwhile, its end tells the others.
  class Turn {
   public:
    explicit Turn(Mesh& mesh) noexcept;
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Mesh& mesh_;
  };

  /// The links of messages: as these, and driven apart from them.
  Mesh& mail() noexcept { return *mail_; }

  /// The link to rank `peer`; null while there is none.
  Link* outgoing(int peer) const noexcept { return out_[static_cast<std::size_t>(peer)]; }
  /// Makes it. Throws Lost.
  Link& connect(int peer, Deadline deadline);
  /// The same in two steps, of which the first needs no Turn, and may be done by any thread.
  /// Throws Lost.
  Socket dial(int peer, Deadline deadline) const;
  Link& adopt(int peer, Socket socket);
  /// The link from rank `peer`; null while there is none.
  Link* incoming(int peer);
  /// Sees to it that the end of rank `peer`, which has not connected, is noticed. Throws Lost.
  void watch(int peer, Deadline deadline);
  /// All of them.
  const std::vector<std::unique_ptr<Link>>& links() const noexcept { return all_; }

  /// Why a peer is not reached (any more).
  struct Lost {
    AbortCause cause;
  };
  /// Looks for news on a link that brings no data now: an end, a cause. Throws Lost. True when
  /// something else is there, to be read by who wants it.
  bool look(Link& link);
  /// Throws Lost when the host at the other end of a link has been silent for UNISONO_NET_DEAD_MS
  /// although something was sent to it. Keep-alive, which ends the others, does not see to those.
  void checkHosts() const;
  /// So often who waits looks at that.
  static constexpr Milliseconds kAskHosts{1000};
  /// What to make of the end of a link: asks. Not shorter than it takes a cause to come.
  AbortCause whyLost(int peer);
  /// The cause that a frame on `link` announces; `begun` of its bytes have been received.
  AbortCause readCause(Link& link, std::uint64_t bytes, std::string begun);
  /// How rank `peer` is; nothing when it cannot be asked. From any thread.
  std::optional<Report> ask(int peer, Deadline deadline) const;

  /// Readable when something has changed that a driver must see: somebody connected, a cause.
  int bell() const noexcept { return bell_.get(); }
  void clearBell() const noexcept;
  void ring() const noexcept;

  /// What this rank has called, for reports.
  CallLog& calls() noexcept { return calls_; }
  const CallLog& calls() const noexcept { return calls_; }

  bool hasFailed() const noexcept { return record_.isSet(); }
  const AbortRecord& record() const noexcept { return record_; }
  /// Ends the group: remembers `cause`, unless there was another before, and tells it to all whom
  /// this rank is connected to; in a Turn, when that ends. Returns the one that counts.
  AbortCause fail(const AbortCause& cause) noexcept;
  std::optional<AbortCause> cause() const { return record_.read(); }
  /// The cause that somebody has sent on a link on which nothing else is under way, for operations
  /// or messages. In a Turn.
  std::optional<AbortCause> toldCause();
  /// Whom to blame for `cause`, as far as the links tell by now: where somebody has died, also
  /// those who have ended without a word since. Not inside a Turn.
  std::vector<int> culpritsNow(const AbortCause& cause);
  /// Says goodbye and closes all links.
  void leave() noexcept;

  void arrive(const Note& note, UniqueFd connection) noexcept override;
  Report report() const override;

 private:
  /// `operations`: of which these are the links of messages; null when it is itself that.
  Mesh(const MeetOptions& options, Mesh* operations);
  enum class News : std::uint8_t { NONE, DATA, END, CAUSE };
  News peek(Link& link, AbortCause& cause);
  bool hasEndedSilently(const Link& link) const;
  /// What an attempt to connect has come to.
  struct Reached {
    enum class How : std::uint8_t {
      CONNECTED,
      ANSWERED,    // with a report
      REFUSED,     // nobody listens there: the process is gone
      CLOSED,      // somebody listens, but has nothing to say
      NOT_PROVEN,  // somebody who does not know the secret
      STALLED,     // the host answers, the process does not: it is stopped, or very busy
      UNREACHED,   // nothing comes from there
    };
    /// For a transfer of the handshake that was not done.
    static How after(const IoResult& result) noexcept;

    How how = How::UNREACHED;
    Socket socket = {};
    std::optional<Report> report = {};
    std::string why = {};  // of UNREACHED
  };
  Reached tryToReach(int peer, Purpose purpose, Deadline deadline) const;
  /// `told`: what others have told meanwhile.
  using Told = std::function<std::optional<AbortCause>()>;
  Reached reachUntil(int peer, Purpose purpose, Deadline deadline, const Told& told,
                     const std::function<bool(const Reached&)>& enough) const;
  /// None for a watch that the other is too slow to answer now. Throws Lost.
  Socket reach(int peer, Purpose purpose, Deadline deadline, const Told& told) const;
  static std::optional<Report> receiveReport(Socket& socket, Deadline deadline);
  IoResult hear(Socket& socket, int peer, std::span<char> into, Deadline deadline) const;
  Link& add(Link link);
  Purpose purpose() const noexcept;
  void collectArrivals();
  std::optional<AbortCause> toldHere();
  std::optional<AbortCause> toldInPassing();
  void tellFailure() noexcept;
  void sendToAll(const Frame& frame, const std::string& rest) noexcept;
  AbortCause causeOf(int peer, const Reached& reached) const;
  AbortCause gone(int peer, Reason reason, std::string_view how) const;
  class Forming;
  Roster meetOthers(const Member& self, const Hearsay& hearsay);

  const MeetOptions options_;
  const std::string id_;
  const Key key_;
  const ProcessMark here_;
  const StreamOptions streamOptions_ = StreamOptions::fromEnvironment();
  const ForkGuard madeIn_;
  UniqueFd bell_;
  CallLog calls_;
  std::atomic<bool> hasLeft_{false};
  AbortRecord own_{};
  Roster members_;
  Mesh* const operations_;
  AbortRecord& record_;  // one for both
  Roster& roster_;       // likewise
  const std::unique_ptr<Mesh> mail_;

  std::atomic<bool> taken_{false};  // somebody has its Turn; with it goes what follows
  bool told_ = false;               // why the group has failed
  std::vector<std::unique_ptr<Link>> all_;
  std::vector<Link*> out_;  // by rank
  std::vector<Link*> in_;
  std::vector<bool> watched_;

  Mutex arrivals_;
  std::vector<Link> arrived_ UNISONO_GUARDED_BY(arrivals_);

  Harbour::Berth berth_;  // last: what arrives uses all of the above
};

}  // namespace unisono::mesh
