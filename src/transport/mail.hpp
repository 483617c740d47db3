// Mail: messages between two ranks of a group, matched by sender and tag.
//
// A message goes through the pipe from its sender to its receiver (carrier.hpp says how). A short
// one goes at once, and is kept by the receiver until somebody asks for it. Of a long one only an
// offer goes; when the receiver knows where to put it, it reads it where it is, or has it sent
// through the pipe. A short one is treated as long while the receiver keeps a lot of that sender's.
// So messages of different tags do not wait for each other, a send never needs the receiver to be
// in a call, and what nobody asks for takes little room, and holds its sender back. Among messages
// of one sender and tag the first comes first, whatever their length.
//
// Nobody sends or receives but the threads that wait: one of them drives for all. A thread of
// Mail's own drives what nobody waits for.
//
// A message that cannot be delivered ends the group, as a collective does: a peer that died or
// left, one that sends another number of bytes than are expected, time that is over.
//
// Thread safety: everything from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "base/wait.hpp"
#include "base/wait_policy.hpp"
#include "transport/carrier.hpp"

namespace unisono {

/// A message to be sent, or room for one to be received.
class Parcel {
 public:
  static constexpr int kAnybody = -1;
  using Callbacks = std::vector<std::function<void()>>;

  virtual ~Parcel() = default;
  /// Sent, or received from `source`; or failed. Called once. Returns what to call when it holds
  /// up nobody.
  virtual Callbacks ended(int source, std::exception_ptr failure) noexcept = 0;

  bool sends = false;
  int peer = kAnybody;  // rank in the group
  int tag = 0;
  std::byte* data = nullptr;  // only read when it is sent
  std::size_t bytes = 0;
  std::uint64_t seq = 0;
  Milliseconds timeout{};
  Deadline deadline = Deadline::never();

 private:
  friend class Mail;
  std::size_t moved_ = 0;
  int source_ = kAnybody;  // of a long one, once it is known
  bool isOver_ = false;
};
using ParcelPtr = std::shared_ptr<Parcel>;

/// How often to look before sleeping while a message of `bytes` bytes is on its way, where `usual`
/// looks come first: as long again as it takes to copy, and not for more than milliseconds. Being
/// woken takes as long as some hundred kilobytes.
constexpr int looksFor(int usual, std::size_t bytes) noexcept {
  constexpr std::size_t kBytesOfALook = 320;  // which takes 80 ns
  constexpr std::size_t kMost = 65'536;
  return usual == 0 ? 0 : usual + static_cast<int>(std::min(bytes / kBytesOfALook, kMost));
}

class Mail : private Cargo {
 public:
  /// `ranks`: of the group, on this host; they have `cores` cores together. `looks`: at most so
  /// many come before it sleeps.
  Mail(Carrier& carrier, int ranks, int cores, std::vector<int> globalRanks, int looks = INT_MAX);
  /// end()s.
  ~Mail() override;
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  /// Its thread keeps `owner`, of which this is a part, as long as it runs. Before anything is
  /// posted.
  void belongTo(const std::shared_ptr<void>& owner) { owner_ = owner; }

  /// So many may be under way.
  static constexpr std::size_t kMostOpen = 65'536;

  /// Takes `parcel` on. `waits`: the caller will call help() for it; else a thread sees to it.
  /// Throws what ended the group, if something did; LIMIT when too many are under way.
  void post(const ParcelPtr& parcel, bool waits) UNISONO_EXCLUDES(mutex_);

  /// Sends and receives until `parcel` is over or `until` has passed.
  void help(const Parcel& parcel, TimePoint until) UNISONO_EXCLUDES(mutex_);

  /// Sends a short message if it can be sent at once; false otherwise.
  [[nodiscard]] bool sendNow(int peer, int tag, std::span<const std::byte> bytes)
      UNISONO_EXCLUDES(mutex_);
  /// Receives a short message if it comes within microseconds and nobody else waits for any; false
  /// otherwise, also when what comes is not what is wanted.
  [[nodiscard]] bool receiveNow(int peer, int tag, std::span<std::byte> into)
      UNISONO_EXCLUDES(mutex_);

  /// How many are under way.
  std::size_t underWay() UNISONO_EXCLUDES(mutex_);

  /// Returns when everything is sent; false when `deadline` has passed before.
  [[nodiscard]] bool flush(Deadline deadline) UNISONO_EXCLUDES(mutex_);

  /// Returns when what counts as sent has left this process, or the group has failed; false when
  /// `deadline` has passed before.
  [[nodiscard]] bool settle(Deadline deadline) noexcept UNISONO_EXCLUDES(mutex_);

  /// If the group has failed, fails what is under way. For who has learnt of it otherwise, and may
  /// unwind now and take the data of messages along. Calls no callbacks.
  void noticeFailure() UNISONO_EXCLUDES(mutex_);

  /// Fails what is under way, and what is posted from now on, with `reason`.
  void close(std::exception_ptr reason) UNISONO_EXCLUDES(mutex_);

  /// Closes it, and returns when its thread has ended; except on that thread, in a callback: then
  /// it is left to end by itself.
  void end() UNISONO_EXCLUDES(mutex_);

 private:
  class Sleeper;
  class Role;
  using Pipe = shm::Pipe;
  using Frame = shm::Frame;

  /// A message that came before anybody asked for it.
  struct Early {
    int source;
    Frame frame;
    std::vector<std::byte> bytes;  // of a short one
  };
  /// What goes to and comes from one rank.
  struct Line {
    Pipe out;
    Pipe in;
    std::deque<ParcelPtr> waiting;               // not even offered yet
    std::map<std::uint64_t, ParcelPtr> offered;  // by number, until they are taken
    std::deque<std::pair<std::uint64_t, ParcelPtr>> streaming;
    std::deque<Frame> answers;                    // to the peer's offers, to be told to it
    std::map<std::uint64_t, ParcelPtr> incoming;  // by the peer's numbers
    std::uint64_t lastNumber = 0;
    std::size_t kept = 0;  // what the peer's messages in early_ take
  };
  /// A message that is read where it is.
  struct Pull {
    int source;
    Frame offer;
    ParcelPtr parcel;
  };
  struct End {
    ParcelPtr parcel;
    int source;
    std::exception_ptr failure;
  };
  using Enough = std::function<bool()>;  // looked at with the lock held

  // Moving messages: mail.cpp.
  void takeOn(const ParcelPtr& parcel) UNISONO_REQUIRES(mutex_);
  bool open(Pipe& pipe, int from, int to, Deadline deadline) UNISONO_REQUIRES(mutex_);
  void progress() UNISONO_REQUIRES(mutex_);
  void send(int peer) UNISONO_REQUIRES(mutex_);
  bool goesAtOnce(const Line& line, std::size_t bytes) const noexcept UNISONO_REQUIRES(mutex_);
  bool sendAnswers(Line& line) UNISONO_REQUIRES(mutex_);
  bool sendWaiting(Line& line) UNISONO_REQUIRES(mutex_);
  bool sendParts(Line& line, int peer) UNISONO_REQUIRES(mutex_);
  std::optional<Piece> toSend(int peer) override UNISONO_REQUIRES(mutex_);
  void sent(int peer, std::size_t bytes) override UNISONO_REQUIRES(mutex_);
  void receive(int peer) UNISONO_REQUIRES(mutex_);
  bool takeFrame(int peer, const Frame& frame) UNISONO_REQUIRES(mutex_);
  void take(int peer, const Frame& frame, std::byte* into) UNISONO_REQUIRES(mutex_);
  bool takeMessage(int peer, const Frame& frame) UNISONO_REQUIRES(mutex_);
  bool takeNumbered(int peer, const Frame& frame) UNISONO_REQUIRES(mutex_);
  bool takeAnswer(int peer, const Frame& frame) UNISONO_REQUIRES(mutex_);
  std::optional<std::span<std::byte>> roomFor(int peer, std::uint64_t number) override
      UNISONO_REQUIRES(mutex_);
  void received(int peer, std::uint64_t number, std::size_t bytes) override
      UNISONO_REQUIRES(mutex_);
  ParcelPtr match(int source, const Frame& frame) UNISONO_REQUIRES(mutex_);
  void keep(int peer, const Frame& frame) UNISONO_REQUIRES(mutex_);
  bool matchEarly(const ParcelPtr& parcel) UNISONO_REQUIRES(mutex_);
  bool fits(int source, const Frame& frame, const Parcel& parcel) UNISONO_REQUIRES(mutex_);
  void fetch(int source, const Frame& offer, const ParcelPtr& parcel) UNISONO_REQUIRES(mutex_);
  void stream(int source, const Frame& offer, const ParcelPtr& parcel) UNISONO_REQUIRES(mutex_);
  void pullSome() UNISONO_REQUIRES(mutex_);
  void over(const ParcelPtr& parcel, int source, std::exception_ptr failure = nullptr)
      UNISONO_REQUIRES(mutex_);

  // Right here: mail_now.cpp.
  bool receiveCarried(int peer, int tag, std::span<std::byte> into) UNISONO_EXCLUDES(mutex_);
  void carryNow() UNISONO_REQUIRES(mutex_);
  bool isStopped() const noexcept UNISONO_REQUIRES(mutex_);
  bool listensOnlyTo(int peer) UNISONO_REQUIRES(mutex_);
  bool takeNow(int peer, int tag, std::span<std::byte> into) UNISONO_REQUIRES(mutex_);

  // Who drives, and what ends it: mail_driver.cpp.
  void begin(const ParcelPtr& parcel) UNISONO_REQUIRES(mutex_);
  void callWorker() UNISONO_REQUIRES(mutex_);
  void work() UNISONO_EXCLUDES(mutex_);
  /// `looks`: how often it looks before it sleeps.
  void driveUntil(const Enough& enough, const WaitContext& limits, int looks)
      UNISONO_EXCLUDES(mutex_);
  bool look(const Enough& enough) UNISONO_EXCLUDES(mutex_);
  /// Drives until `enough`; whether that is so within `limits`.
  bool driveToEnd(const Enough& enough, const WaitContext& limits) UNISONO_EXCLUDES(mutex_);
  /// Whether something that counts as sent has still to be carried away.
  bool owes() const UNISONO_REQUIRES(mutex_);
  /// Nothing is under way.
  bool isIdle() const UNISONO_REQUIRES(mutex_) { return open_.empty() && !owes(); }
  void tellEnds() UNISONO_EXCLUDES(mutex_);
  void runCallbacks() noexcept UNISONO_EXCLUDES(mutex_);
  /// Whether there is anything to wait for; with `processes` also whether a peer dumps core.
  void check(bool processes) UNISONO_EXCLUDES(mutex_);
  void checkProcesses() UNISONO_REQUIRES(mutex_);
  void checkLeft(int peer) UNISONO_REQUIRES(mutex_);
  void checkDeadlines() UNISONO_REQUIRES(mutex_);
  void fail(AbortCause cause) UNISONO_REQUIRES(mutex_);
  void failAll(const AbortCause& cause) UNISONO_REQUIRES(mutex_);
  void forget() UNISONO_REQUIRES(mutex_);
  std::exception_ptr errorFor(const AbortCause& cause, const Parcel& parcel) const;
  std::string describe(const Parcel& parcel) const;
  /// " (process 77, state T stopped)" of the rank it depends on; nothing while nobody is known.
  std::string stateOfPeer(const Parcel& parcel) const;
  /// The rank that it is for, or comes from; Parcel::kAnybody while nobody is known.
  static int neededFor(const Parcel& parcel);
  int world(int rank) const { return globalRanks_[static_cast<std::size_t>(rank)]; }
  Line& line(int rank) UNISONO_REQUIRES(mutex_) { return lines_[static_cast<std::size_t>(rank)]; }

  Carrier& carrier_;
  const AbortRecord& record_;
  const bool carries_;
  const int rank_;
  const std::size_t shortBytes_;  // longer messages are offered first
  const WaitPolicy policy_;
  const int mostLooks_;
  const std::vector<int> globalRanks_;
  const ForkGuard madeIn_;
  std::weak_ptr<void> owner_;

  Mutex mutex_;
  CondVar changed_;
  std::vector<Line> lines_ UNISONO_GUARDED_BY(mutex_);      // by rank
  std::list<ParcelPtr> wanted_ UNISONO_GUARDED_BY(mutex_);  // in the order they were asked for
  std::list<Early> early_ UNISONO_GUARDED_BY(mutex_);       // in the order they came
  std::deque<Pull> pulls_ UNISONO_GUARDED_BY(mutex_);
  std::map<const Parcel*, ParcelPtr> open_ UNISONO_GUARDED_BY(mutex_);
  Deadline nobodyLateBefore_ UNISONO_GUARDED_BY(mutex_) = Deadline::never();  // of open_
  std::vector<End> ends_ UNISONO_GUARDED_BY(mutex_);                          // not told yet
  int tellers_ UNISONO_GUARDED_BY(mutex_) = 0;  // threads that are telling some
  Parcel::Callbacks callbacks_ UNISONO_GUARDED_BY(mutex_);
  std::exception_ptr closed_ UNISONO_GUARDED_BY(mutex_);
  bool driven_ UNISONO_GUARDED_BY(mutex_) = false;  // somebody drives
  int helpers_ UNISONO_GUARDED_BY(mutex_) = 0;      // threads that wait to drive
  bool ending_ UNISONO_GUARDED_BY(mutex_) = false;
  bool workerRuns_ UNISONO_GUARDED_BY(mutex_) = false;
  Thread worker_ UNISONO_GUARDED_BY(mutex_);
};

}  // namespace unisono
