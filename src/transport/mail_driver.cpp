#include <algorithm>
#include <iterator>
#include <utility>

#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/str.hpp"
#include "life/blame.hpp"
#include "transport/mail.hpp"
#include "transport/meeting.hpp"

namespace unisono {
namespace {

// As PeerWait: a peer may be dumping core, and /proc knows.
constexpr Milliseconds kProcessLook(50);
// For a thread to say what it has taken on to say; it does not sleep meanwhile.
constexpr Milliseconds kTelling(1000);

/// The first of `open` whose peer `is` so. Each is asked about once, however many messages it has:
/// that may be a look at /proc.
template <typename Open, typename PeerOf, typename Is>
auto firstWithPeer(const Open& open, PeerOf peerOf, Is is) {
  std::vector<int> asked;
  return std::find_if(open.begin(), open.end(), [&](const auto& entry) {
    const int peer = peerOf(*entry.second);
    if (std::find(asked.begin(), asked.end(), peer) != asked.end()) {
      return false;
    }
    asked.push_back(peer);
    return is(peer);
  });
}

}  // namespace

/// The right to drive, which one thread has at a time.
class Mail::Role {
 public:
  /// Waits for it until `enough`, within `limits`.
  Role(Mail& mail, const Enough& enough, const WaitContext& limits) : mail_(mail) {
    const MutexLock lock(mail_.mutex_);
    const Helping helping(mail_);
    if (mail_.driven_) {
      mail_.carrier_.wake();  // the worker lets others go first
    }
    CondWaitable on(mail_.changed_, mail_.mutex_);
    static_cast<void>(
        waitUntil([&]() UNISONO_NO_ANALYSIS { return !mail_.driven_ || enough(); }, limits, on));
    held_ = !mail_.driven_ && !enough();
    mail_.driven_ = mail_.driven_ || held_;
  }
  /// Takes it if nobody has it or waits for it.
  explicit Role(Mail& mail) : mail_(mail) {
    const MutexLock lock(mail_.mutex_);
    held_ = !mail_.driven_ && mail_.helpers_ == 0;
    mail_.driven_ = mail_.driven_ || held_;
  }
  ~Role() {
    if (!held_) {
      return;
    }
    const MutexLock lock(mail_.mutex_);
    mail_.driven_ = false;
    if (!mail_.isIdle() || mail_.helpers_ > 0) {
      mail_.callWorker();
    }
  }
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;
  bool isHeld() const noexcept { return held_; }

 private:
  struct Helping {
    explicit Helping(Mail& in) UNISONO_NO_ANALYSIS : mail(in) { ++mail.helpers_; }
    ~Helping() UNISONO_NO_ANALYSIS { --mail.helpers_; }
    Helping(const Helping&) = delete;
    Helping& operator=(const Helping&) = delete;
    Mail& mail;
  };
  Mail& mail_;
  bool held_ = false;
};

/// Sleeps until there is something new; looks before every sleep whether there is anything to wait
/// for.
class Mail::Sleeper final : public Waitable {
 public:
  explicit Sleeper(Mail& mail) : mail_(mail), sleeper_(mail.carrier_.sleeper()) {}
  void sleep(Milliseconds most) override {
    const bool look = nextLook_.expired();
    mail_.check(look);
    nextLook_ = look ? Deadline::after(kProcessLook) : nextLook_;
    sleeper_->sleep(most);
  }

 private:
  Mail& mail_;
  const std::unique_ptr<Waitable> sleeper_;
  Deadline nextLook_ = Deadline::after(kProcessLook);
};

Mail::Mail(Carrier& carrier, int ranks, int cores, std::vector<int> globalRanks, int looks)
    : carrier_(carrier),
      record_(carrier.record()),
      carries_(carrier.carries()),
      rank_(carrier.rank()),
      shortBytes_(shm::pipeBytes(static_cast<std::size_t>(carrier.size())) / 4),
      policy_(ranks, cores),
      mostLooks_(std::min(looks, policy_.spins())),
      globalRanks_(std::move(globalRanks)),
      lines_(static_cast<std::size_t>(carrier.size())) {}

Mail::~Mail() {
  if (!madeIn_.inChild()) {  // there the thread, and who may hold the lock, are the parent's
    end();
  }
}

void Mail::end() {
  close(std::make_exception_ptr(
      DistBackendError({.reason = Reason::SHUTDOWN, .what = "the group is being destroyed"})));
  Thread worker;  // joined at the end
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notifyAll();
    worker = std::move(worker_);
  }
  carrier_.wake();
  if (worker.isCurrent()) {
    worker.detach();  // what it uses is its own: it keeps the owner
  }
}

void Mail::post(const ParcelPtr& parcel, bool waits) {
  std::exception_ptr failure;
  {
    const MutexLock lock(mutex_);
    if (closed_) {
      std::rethrow_exception(closed_);
    }
    carrier_.listen();
    if (const auto cause = carrier_.cause()) {
      // The caller may unwind now, and take the data of its other messages along.
      failure = errorFor(*cause, *parcel);
      failAll(*cause);
    } else if (open_.size() >= kMostOpen) {
      throw DistBackendError({.reason = Reason::LIMIT,
                              .what = str("more than ", kMostOpen, " messages are under way"),
                              .hint = "wait for some of them",
                              .op = parcel->sends ? "send" : "recv",
                              .group = carrier_.group()});
    } else {
      begin(parcel);
      if (driven_ && carries_) {
        carrier_.wake();  // who drives does not know of it
      } else if (!driven_ && (waits ? parcel->isOver_ && owes() : !isIdle())) {
        callWorker();
      }
    }
  }
  tellEnds();
  runCallbacks();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void Mail::begin(const ParcelPtr& parcel) {
  try {
    takeOn(parcel);
    progress();
  } catch (...) {
    // The caller unwinds, and takes the data along.
    fail({.reason = Reason::ABORTED,
          .culprits = {rank_},
          .reporter = rank_,
          .seq = parcel->seq,
          .text = str("rank ", world(rank_), " was interrupted: ", describe(*parcel))});
    throw;
  }
}

void Mail::help(const Parcel& parcel, TimePoint until) {
  const auto isOver = [&]() UNISONO_NO_ANALYSIS { return parcel.isOver_; };
  // One for all the waits in here: the notice is given once.
  struct Notice {
    const Mail& mail;
    const Parcel& parcel;
    bool given = false;
  } notice{*this, parcel};
  WaitContext limits{
      .deadline = Deadline::at(std::min(until, parcel.deadline.when())), .subject = [&notice] {
        notice.given = true;
        const Parcel& late = notice.parcel;
        return str(late.sends ? "send" : "recv", " of group '", notice.mail.carrier_.group(),
                   "': ", notice.mail.describe(late), notice.mail.stateOfPeer(late));
      }};
  const int looks =
      policy_.isCrowded() || carries_ ? mostLooks_ : looksFor(policy_.spins(), parcel.bytes);
  for (bool more = true; more;) {
    {
      const Role role(*this, isOver, limits);
      more = role.isHeld();
      if (more) {
        driveUntil([&]() UNISONO_NO_ANALYSIS { return parcel.isOver_ || !callbacks_.empty(); },
                   limits, looks);
        if (parcel.deadline.expired()) {
          check(false);  // which ends it: no sleep may have come after its time was over
        }
      }
    }
    runCallbacks();
    if (notice.given) {
      limits.subject = nullptr;
    }
    more = more && systemClock().now() < until;
  }
}

std::size_t Mail::underWay() {
  const MutexLock lock(mutex_);
  return open_.size();
}

bool Mail::flush(Deadline deadline) {
  const auto sent = [this]() UNISONO_NO_ANALYSIS {
    return !owes() && std::none_of(open_.begin(), open_.end(),
                                   [](const auto& entry) { return entry.second->sends; });
  };
  return driveToEnd(sent, {.deadline = deadline, .subject = {}});
}

bool Mail::settle(Deadline deadline) noexcept {
  try {
    return driveToEnd([this]() UNISONO_NO_ANALYSIS { return !owes(); },
                      {.deadline = deadline, .subject = {}, .interruptible = false});
  } catch (...) {
    return false;  // the group is being left: what its failure means nobody asks any more
  }
}

bool Mail::driveToEnd(const Enough& enough, const WaitContext& limits) {
  {
    const Role role(*this, enough, limits);
    if (role.isHeld()) {
      driveUntil(enough, limits, mostLooks_);
    }
  }
  runCallbacks();
  const MutexLock lock(mutex_);
  return enough();
}

bool Mail::owes() const {
  return carries_ && carrier_.owes() && !record_.isSet();
}

void Mail::noticeFailure() {
  {
    const MutexLock lock(mutex_);
    const bool isNothingUnderWay = open_.empty() && ends_.empty() && tellers_ == 0;
    const auto cause = isNothingUnderWay ? std::nullopt : carrier_.cause();
    if (!cause) {
      return;
    }
    failAll(*cause);
  }
  tellEnds();
  {
    // Another thread may have noticed it, too, and be about to say so.
    const MutexLock lock(mutex_);
    CondWaitable on(changed_, mutex_);
    static_cast<void>(waitUntil(
        [this]() UNISONO_NO_ANALYSIS { return tellers_ == 0; },
        {.deadline = Deadline::after(kTelling), .subject = {}, .interruptible = false}, on));
  }
  carrier_.wake();  // who drives calls the callbacks
}

void Mail::close(std::exception_ptr reason) {
  {
    const MutexLock lock(mutex_);
    closed_ = closed_ ? closed_ : reason;
    carrier_.withdraw();
    while (!open_.empty()) {
      over(ParcelPtr(open_.begin()->second), Parcel::kAnybody, reason);
    }
    forget();
  }
  tellEnds();
  runCallbacks();
}

// --- driving ---

void Mail::callWorker() {
  changed_.notifyAll();
  if (helpers_ > 0 || ending_ || workerRuns_) {
    return;
  }
  try {
    worker_ = Thread("unisono-mail", [this, owner = owner_.lock()] { work(); });
    workerRuns_ = true;
  } catch (const DistError& error) {
    UNISONO_LOG(WARN, "transport", "no thread for messages nobody waits for: ", error.what());
  }
}

void Mail::work() {
  const auto idle = [this]() UNISONO_NO_ANALYSIS {
    return ending_ || isIdle() || helpers_ > 0 || !callbacks_.empty();
  };
  for (;;) {
    {
      const MutexLock lock(mutex_);
      CondWaitable on(changed_, mutex_);
      static_cast<void>(waitUntil(
          [this]()
              UNISONO_NO_ANALYSIS { return ending_ || (!driven_ && helpers_ == 0 && !isIdle()); },
          {.deadline = Deadline::never(), .subject = {}}, on));
      if (ending_) {
        return;
      }
    }
    {
      const Role role(*this);
      if (role.isHeld()) {
        driveUntil(idle, {.deadline = Deadline::never(), .subject = {}}, mostLooks_);
      }
    }
    runCallbacks();
  }
}

/// The caller has the role.
void Mail::driveUntil(const Enough& enough, const WaitContext& limits, int looks) {
  const auto ready = [&] { return look(enough); };
  for (int i = looks; i > 0; --i) {
    if (ready()) {
      return;
    }
    cpuRelax();
  }
  if (!policy_.yieldUntil(ready)) {
    Sleeper sleeper(*this);
    static_cast<void>(waitUntil(ready, limits, sleeper));
  }
}

bool Mail::look(const Enough& enough) {
  bool done = false;
  for (bool again = true; again;) {
    bool ends = false;
    {
      const MutexLock lock(mutex_);
      progress();
      ends = !ends_.empty();
      done = enough();
      // Messages that are read where they are: not all at once, others may want the lock.
      again = !done && !pulls_.empty() && !record_.isSet();
    }
    if (ends) {
      tellEnds();
      const MutexLock lock(mutex_);
      done = enough();
    }
  }
  return done;
}

void Mail::tellEnds() {
  std::vector<End> ends;
  {
    const MutexLock lock(mutex_);
    if (ends_.empty()) {
      return;
    }
    ends.swap(ends_);
    ++tellers_;
  }
  Parcel::Callbacks callbacks;
  for (End& end : ends) {
    Parcel::Callbacks more = end.parcel->ended(end.source, std::move(end.failure));
    callbacks.insert(callbacks.end(), std::make_move_iterator(more.begin()),
                     std::make_move_iterator(more.end()));
  }
  const MutexLock lock(mutex_);
  callbacks_.insert(callbacks_.end(), std::make_move_iterator(callbacks.begin()),
                    std::make_move_iterator(callbacks.end()));
  --tellers_;
  changed_.notifyAll();
}

void Mail::runCallbacks() noexcept {
  Parcel::Callbacks callbacks;
  {
    const MutexLock lock(mutex_);
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) {
    callback();  // they log what they throw
  }
}

// --- what ends it ---

void Mail::check(bool processes) {
  {
    const MutexLock lock(mutex_);
    if (const auto cause = carrier_.cause()) {
      failAll(*cause);
    }
    for (int peer = 0; peer < carrier_.size() && !open_.empty(); ++peer) {
      const Carrier::PeerState state = carrier_.stateOf(peer);
      if (state == Carrier::PeerState::DEAD) {
        progress();  // what it has sent before it died
        if (!open_.empty()) {
          fail({.reason = Reason::PEER_DEAD,
                .culprits = {peer},
                .reporter = rank_,
                .seq = open_.begin()->first->seq,
                .text = str("rank ", world(peer), " (process ", carrier_.processOf(peer),
                            ") has died while there were messages under way")});
        }
      } else if (state == Carrier::PeerState::LEFT) {
        progress();
        checkLeft(peer);
      }
    }
    if (processes) {
      checkProcesses();
    }
    checkDeadlines();
    carrier_.beforeSleep();
  }
  tellEnds();
}

/// Fails if a rank that is waited for has crashed and is dumping core, which may take minutes.
void Mail::checkProcesses() {
  const auto lost = firstWithPeer(open_, neededFor, [this](int peer) {
    if (peer == Parcel::kAnybody) {
      carrier_.expectAnybody();
      return false;
    }
    return carrier_.hasCrashed(peer);
  });
  if (lost == open_.end()) {
    return;
  }
  const Parcel& parcel = *lost->second;
  const int peer = neededFor(parcel);
  fail({.reason = Reason::PEER_DEAD,
        .culprits = {peer},
        .reporter = rank_,
        .seq = parcel.seq,
        .text = str("rank ", world(peer), " (process ", carrier_.processOf(peer),
                    ") has crashed and is dumping core, but ", describe(parcel))});
}

int Mail::neededFor(const Parcel& parcel) {
  return parcel.peer == Parcel::kAnybody ? parcel.source_ : parcel.peer;
}

/// Fails if something is to go to, or to come from, a rank that has left.
void Mail::checkLeft(int peer) {
  for (const auto& [key, parcel] : open_) {
    if (neededFor(*parcel) == peer) {
      const AbortCause cause{
          .reason = Reason::PEER_LEFT,
          .culprits = {peer},
          .reporter = rank_,
          .seq = parcel->seq,
          .text = str("rank ", world(peer), " has left the group, but ", describe(*parcel))};
      return fail(cause);
    }
  }
}

void Mail::checkDeadlines() {
  if (!nobodyLateBefore_.expired()) {
    return;  // this is asked before every sleep, and tens of thousands may be under way
  }
  const auto late = std::min_element(open_.begin(), open_.end(), [](auto& one, auto& other) {
    return one.second->deadline < other.second->deadline;
  });
  nobodyLateBefore_ = late == open_.end() ? Deadline::never() : late->second->deadline;
  if (!nobodyLateBefore_.expired()) {
    return;
  }
  // Others may be late only because they wait for one that is stopped.
  const auto stuck = firstWithPeer(open_, neededFor, [this](int peer) {
    return peer != Parcel::kAnybody && peer != rank_ && carrier_.isStopped(peer);
  });
  const ParcelPtr parcel = (stuck == open_.end() ? late : stuck)->second;
  fail({.reason = Reason::TIMEOUT,
        .culprits = {neededFor(*parcel)},
        .reporter = rank_,
        .seq = parcel->seq,
        .text = str(parcel->sends ? "send" : "recv", " timed out: Timed out waiting ",
                    parcel->timeout.count(), "ms. ", describe(*parcel), stateOfPeer(*parcel))});
}

std::string Mail::describe(const Parcel& parcel) const {
  const bool anybody = parcel.peer == Parcel::kAnybody;
  return str("rank ", world(rank_), parcel.sends ? " sends " : " waits for ", parcel.bytes,
             " bytes with tag ", parcel.tag, parcel.sends ? " to " : " from ",
             anybody ? "any rank" : str("rank ", world(parcel.peer)));
}

std::string Mail::stateOfPeer(const Parcel& parcel) const {
  const int peer = neededFor(parcel);
  return peer == Parcel::kAnybody ? "" : str(" (", carrier_.describe(peer), ")");
}

void Mail::fail(AbortCause cause) {
  failAll(carrier_.fail(std::move(cause)));
}

void Mail::failAll(const AbortCause& cause) {
  while (!open_.empty()) {
    const ParcelPtr parcel = open_.begin()->second;
    over(parcel, Parcel::kAnybody, errorFor(cause, *parcel));
  }
  forget();
}

/// All but the pipes.
void Mail::forget() {
  wanted_.clear();
  early_.clear();
  pulls_.clear();
  for (Line& each : lines_) {
    Line empty;
    empty.out = each.out;
    empty.in = each.in;
    each = std::move(empty);
  }
}

std::exception_ptr Mail::errorFor(const AbortCause& cause, const Parcel& parcel) const {
  const std::vector<int> culprits = carrier_.culpritsNow(cause);
  ErrorFacts facts{.op = parcel.sends ? "send" : "recv",
                   .seq = static_cast<std::int64_t>(parcel.seq),
                   .group = carrier_.group(),
                   .rank = rank_,
                   .world = carrier_.size()};
  if (!culprits.empty()) {
    facts.pid = carrier_.processOf(culprits.front());
  }
  try {
    throwCause(cause, std::move(facts), inWorld(culprits, globalRanks_));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace unisono
