#include "transport/mesh/courier.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "base/spin.hpp"
#include "base/str.hpp"
#include "base/thread.hpp"
#include "base/wait.hpp"
#include "life/blame.hpp"

namespace unisono::mesh {
namespace {

// What is received at once of data that is reduced: it stays in the cache.
constexpr std::size_t kStage = 256 * 1024;
// How long a rank waits for one that has not connected before it finds out whether it lives.
constexpr Milliseconds kWatchAfter(50);
// Between two looks whether somebody who is waited for has crashed.
constexpr Milliseconds kCrashLook(50);
// For finding out who is late, once time is over: a call ends a hundredth of its time late at most.
constexpr Milliseconds kShortestEnquiry(40);
constexpr Milliseconds kLongestEnquiry(1000);
// Where somebody on this host lives and has not answered by then: too many want the processors, and
// it is better to be late than to name the wrong rank.
constexpr Milliseconds kCrowdedEnquiry(300);
constexpr int kMostAsked = 64;
// How long a rank waits before it asks whether the others have called the same, and again after
// twice the time.
constexpr Milliseconds kCompareAfter(250);
constexpr Milliseconds kCompareSeldom(30'000);
constexpr std::size_t kMostCompared = 8;
// Where a rank has a core to itself: being woken takes longer than most messages.
constexpr std::chrono::microseconds kTrying(20);

}  // namespace

/// Sleeps until some of the links can be used, or something is new.
class Courier::Sleeper final : public Waitable {
 public:
  explicit Sleeper(Courier& owner) : owner_(owner) {}

  void sleep(Milliseconds most) override {
    owner_.lookAtLinks();
    if (lookAt_.expired()) {  // first: a watch of somebody who dumps core takes long
      owner_.checkProcesses();
      lookAt_ = Deadline::after(kCrashLook);
    }
    const bool isLong = watchAt_.expired();
    if (isLong) {
      owner_.watchSilent();
    }
    if (askHostsAt_.expired()) {
      owner_.mesh_.checkHosts();
      askHostsAt_ = Deadline::after(Mesh::kAskHosts);
    }
    if (compareAt_.expired()) {
      owner_.compareCalls();
      compareAfter_ = std::min(2 * compareAfter_, kCompareSeldom);
      compareAt_ = Deadline::after(compareAfter_);
    }
    entries_.assign(1, {.fd = owner_.mesh_.bell(), .events = POLLIN, .revents = 0});
    for (const auto& link : owner_.mesh_.links()) {
      if (const short events = owner_.eventsOf(*link); events != 0) {
        entries_.push_back({.fd = link->socket.fd(), .events = events, .revents = 0});
      }
    }
    const auto slice = static_cast<int>(std::min(most, isLong ? most : kWatchAfter).count());
    static_cast<void>(::poll(entries_.data(), entries_.size(), slice));
    owner_.mesh_.clearBell();
  }

 private:
  Courier& owner_;
  const Deadline watchAt_ = Deadline::after(kWatchAfter);
  Deadline lookAt_ = Deadline::after(kCrashLook);
  Deadline askHostsAt_ = Deadline::after(Mesh::kAskHosts);
  Milliseconds compareAfter_ = kCompareAfter;
  Deadline compareAt_ = Deadline::after(kCompareAfter);
  std::vector<pollfd> entries_;
};

Courier::Courier(Mesh& mesh, int cores, Describe describe)
    : Communicator(mesh.rank(), mesh.size()),
      mesh_(mesh),
      policy_(mesh.ranksHere(), cores),
      trying_(spinTime(kTrying)),
      describe_(describe) {}

void Courier::open(const Call& call) {
  seq_ += 1;
  call_ = call;
  deadline_.reset();
  mesh_.calls().note(seq_, call);
  if (mesh_.hasFailed()) [[unlikely]] {
    throwCauseHere(mesh_.cause().value_or(AbortCause{}));
  }
}

void Courier::end(bool done) noexcept {
  if (done || mesh_.hasFailed()) {
    return;
  }
  AbortCause cause{.reason = Reason::ABORTED, .reporter = rank(), .seq = seq_, .text = {}};
  try {
    cause.culprits = {rank()};
    cause.text = str(mesh_.nameOf(rank()), " has left ", call_.name, " before it was over");
  } catch (const std::bad_alloc&) {
    // That it is over counts more than why.
  }
  mesh_.fail(cause);
}

void Courier::transfer(std::span<const SendTo> out, std::span<const RecvFrom> in) {
  try {
    const Mesh::Turn turn(mesh_);
    prepare(out, in);
    if (!moveAll()) {
      waitForMore();
    }
  } catch (const Mesh::Lost& lost) {
    throwCauseHere(mesh_.fail(lost.cause));
  }
}

void Courier::prepare(std::span<const SendTo> out, std::span<const RecvFrom> in) {
  out_.clear();
  in_.clear();
  auto stage = stages_.begin();
  for (const SendTo& what : out) {
    Link* link = mesh_.outgoing(what.rank);
    Sending& sending = out_.emplace_back();
    sending.what = what;
    sending.link = link != nullptr ? link : &mesh_.connect(what.rank, deadline());
    Frame{.kind = Frame::Kind::DATA, .seq = seq_, .bytes = what.block.size(), .call = call_}.encode(
        sending.head);
  }
  for (const RecvFrom& what : in) {
    Receiving& receiving = in_.emplace_back();
    receiving.what = what;
    if (what.into != RecvFrom::Into::STORE && !what.block.empty()) {
      stage = stage == stages_.end() ? stages_.emplace(stage) : stage;
      receiving.stage = &*stage++;
      receiving.stage->resize(
          std::max(receiving.stage->size(), std::min(kStage, what.block.size())));
    }
  }
}

/// Moves what can be moved without waiting; whether all is done.
bool Courier::moveAll() {
  bool done = true;
  for (Sending& sending : out_) {
    done = (sending.isDone() || push(sending)) && done;
  }
  for (Receiving& receiving : in_) {
    done = (receiving.isDone() || pull(receiving)) && done;
  }
  return done;
}

bool Courier::push(Sending& sending) {
  Link& link = *sending.link;
  if (link.sender != nullptr && link.sender != &sending) {
    return false;  // after the one before
  }
  while (!sending.isDone()) {  // ends when the kernel takes no more
    const std::size_t ofHead = std::min(sending.done, sending.head.size());
    const std::span<const std::byte> block = sending.what.block.subspan(sending.done - ofHead);
    iovec pieces[] = {{sending.head.data() + ofHead, sending.head.size() - ofHead},
                      {const_cast<std::byte*>(block.data()), block.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(link.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && isForLater()) {
      return false;
    }
    if (sent < 0) {
      throw Mesh::Lost{mesh_.whyLost(link.peer)};
    }
    link.sender = &sending;
    sending.done += static_cast<std::size_t>(sent);
  }
  link.sender = nullptr;
  return true;
}

bool Courier::pull(Receiving& receiving) {
  if (receiving.link == nullptr) {
    receiving.link = mesh_.incoming(receiving.what.rank);
  }
  Link* link = receiving.link;
  if (link == nullptr || (link->receiver != nullptr && link->receiver != &receiving)) {
    return false;
  }
  while (!receiving.isDone()) {  // ends when nothing more is there
    const std::size_t missing = receiving.head.size() - receiving.got;
    iovec pieces[] = {{receiving.head.data() + receiving.got, missing}, roomFor(receiving)};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const ssize_t result = ::recvmsg(link->socket.fd(), &message, MSG_DONTWAIT);
    if (result < 0 && isForLater()) {
      return false;
    }
    if (result <= 0) {
      throw Mesh::Lost{mesh_.whyLost(link->peer)};
    }
    link->receiver = &receiving;
    const auto bytes = static_cast<std::size_t>(result);
    const std::size_t ofHead = std::min(bytes, missing);
    receiving.got += ofHead;
    if (ofHead > 0 && ofHead == missing) {
      checkHead(receiving, bytes - ofHead);
    }
    take(receiving, bytes - ofHead);
  }
  link->receiver = nullptr;
  return true;
}

/// Where the next bytes of the block go.
iovec Courier::roomFor(Receiving& receiving) {
  const std::span<std::byte> rest = receiving.what.block.subspan(receiving.done);
  if (receiving.stage == nullptr) {
    return {rest.data(), rest.size()};
  }
  const std::size_t room = std::min(receiving.stage->size(), rest.size()) - receiving.staged;
  return {receiving.stage->data() + receiving.staged, room};
}

/// The head has come, and `more` bytes after it, which are where roomFor() said.
void Courier::checkHead(Receiving& receiving, std::size_t more) {
  const int peer = receiving.what.rank;
  const auto frame = Frame::decode(receiving.head);
  if (frame && frame->kind == Frame::Kind::ABORT) {
    const auto* begun = static_cast<const char*>(roomFor(receiving).iov_base);
    throw Mesh::Lost{mesh_.readCause(*receiving.link, frame->bytes, std::string(begun, more))};
  }
  if (frame && frame->kind == Frame::Kind::BYE) {
    receiving.link->hasLeft = true;
    throw Mesh::Lost{mesh_.whyLost(peer)};
  }
  if (!frame) {
    throw Mesh::Lost{{.reason = Reason::PROTOCOL,
                      .culprits = {peer},
                      .reporter = rank(),
                      .seq = seq_,
                      .text = str(mesh_.nameOf(peer), " sends what is not understood")}};
  }
  const bool isSame = frame->seq == seq_ && frame->call.signature == call_.signature &&
                      frame->call.algorithm == call_.algorithm &&
                      frame->bytes == receiving.what.block.size();
  if (!isSame) [[unlikely]] {
    throw Mesh::Lost{mismatch(peer, *frame, receiving.what.block.size())};
  }
}

/// `bytes` more have come.
void Courier::take(Receiving& receiving, std::size_t bytes) {
  if (receiving.stage == nullptr) {
    receiving.done += bytes;
    return;
  }
  receiving.staged += bytes;
  const Reduction& reduction = *receiving.what.reduction;
  const std::size_t elements = receiving.staged / reduction.elementSize();
  if (elements == 0) {
    return;
  }
  std::byte* mine = receiving.what.block.data() + receiving.done;
  const std::byte* theirs = receiving.stage->data();
  const bool before = receiving.what.into == RecvFrom::Into::BEFORE;
  const std::byte* sources[] = {before ? theirs : mine, before ? mine : theirs};
  reduction.reduce(mine, sources, elements);
  const std::size_t reduced = elements * reduction.elementSize();
  receiving.done += reduced;
  receiving.staged -= reduced;
  std::memmove(receiving.stage->data(), receiving.stage->data() + reduced, receiving.staged);
}

/// Returns when all is done.
void Courier::waitForMore() {
  const auto moved = [this] { return moveAll(); };
  if (!policy_.isCrowded()) {
    const TimePoint until = systemClock().now() + trying_;
    do {
      if (moved()) {
        return;
      }
    } while (systemClock().now() < until);
  } else if (policy_.yieldUntil(moved)) {
    return;
  }
  const WaitContext context{.deadline = deadline(), .subject = [this] {
                              return str(call_.name, " of group '", mesh_.group(),
                                         "': waiting for ", inWords(awaited()));
                            }};
  Sleeper sleeper(*this);
  if (!waitUntil(moved, context, sleeper)) {
    throwTimeout();
  }
}

/// News of those from whom nothing is awaited now: the group may have failed. Throws Lost.
void Courier::lookAtLinks() {
  if (mesh_.hasFailed()) {
    throw Mesh::Lost{mesh_.cause().value_or(AbortCause{})};
  }
  // By number: a look may find more of them.
  for (std::size_t i = 0; i < mesh_.links().size(); ++i) {
    Link& link = *mesh_.links()[i];
    const bool isAwaited = std::any_of(in_.begin(), in_.end(), [&](const Receiving& each) {
      return each.link == &link && !each.isDone();
    });
    link.isQuiet = !isAwaited && mesh_.look(link);
  }
}

/// Those who have not connected yet may be gone. Throws Lost.
void Courier::watchSilent() {
  for (const Receiving& receiving : in_) {
    if (receiving.link == nullptr) {
      mesh_.watch(receiving.what.rank, deadline());
    }
  }
}

short Courier::eventsOf(const Link& link) const noexcept {
  const bool sends = std::any_of(out_.begin(), out_.end(), [&](const Sending& each) {
    return each.link == &link && !each.isDone();
  });
  return static_cast<short>((link.isQuiet ? 0 : POLLIN) | (sends ? POLLOUT : 0));
}

Deadline Courier::deadline() {
  if (!deadline_) {
    start_ = systemClock().now();
    deadline_ = Deadline::after(call_.timeout);
  }
  return *deadline_;
}

/// Those whom this transfer cannot do without any longer.
std::vector<int> Courier::awaited() const {
  std::vector<int> ranks;
  for (const Receiving& each : in_) {
    if (!each.isDone()) {
      ranks.push_back(each.what.rank);
    }
  }
  for (const Sending& each : out_) {
    if (!each.isDone() && std::find(ranks.begin(), ranks.end(), each.what.rank) == ranks.end()) {
      ranks.push_back(each.what.rank);
    }
  }
  return ranks;
}

/// A process that dumps core keeps its connections until it is done. Throws Lost.
void Courier::checkProcesses() const {
  for (const int peer : awaited()) {
    if (mesh_.isDumpingCore(peer)) {
      throw Mesh::Lost{{.reason = Reason::PEER_DEAD,
                        .culprits = {peer},
                        .reporter = rank(),
                        .seq = seq_,
                        .text = str(mesh_.nameOf(peer), " (", mesh_.placeOf(peer),
                                    ") has crashed during ", call_.name, " and is dumping core")}};
    }
  }
}

/// Who was told something else may wait as this rank does, so that nobody sends a frame by which
/// they would know: asks some of those who are awaited. Throws Lost.
void Courier::compareCalls() const {
  std::vector<int> peers = awaited();
  peers.resize(std::min(peers.size(), kMostCompared));
  for (const int peer : peers) {
    const auto report = mesh_.ask(peer, Deadline::after(kShortestEnquiry));
    if (report && report->cause) {
      throw Mesh::Lost{*report->cause};
    }
    for (const Frame& theirs : report ? report->calls : std::vector<Frame>()) {
      if (theirs.seq == seq_ &&
          (theirs.call.signature != call_.signature || theirs.call.algorithm != call_.algorithm)) {
        throw Mesh::Lost{mismatch(peer, theirs, 0)};
      }
    }
  }
}

/// What the others say until then. All are asked at once: one that does not answer keeps the others
/// from nothing.
std::vector<Courier::Answer> Courier::enquire(Deadline until) const {
  std::vector<Answer> answers;
  for (int peer = 0; peer < std::min(size(), kMostAsked); ++peer) {
    if (peer != rank()) {
      answers.push_back({.peer = peer, .report = {}});
    }
  }
  std::vector<Thread> threads;  // joined at the end
  try {
    for (Answer& each : answers) {
      threads.emplace_back("unisono-ask", [this, &each, until] {
        try {
          each.report = mesh_.ask(each.peer, until);
        } catch (const std::exception&) {
          each.report.reset();  // as one that does not answer
        }
      });
    }
  } catch (const std::exception&) {
    // No more threads: who was not asked has not answered.
  }
  threads.clear();
  return answers;
}

/// Those who are stopped; or else those who have not called this operation. One that does not even
/// answer counts as such, unless it can be seen to live and is not needed here.
std::vector<int> Courier::laggards() const {
  std::vector<int> late;
  for (int peer = 0; peer < std::min(size(), kMostAsked); ++peer) {
    if (peer != rank() && mesh_.isStopped(peer)) {
      late.push_back(peer);
    }
  }
  if (!late.empty()) {
    return late;
  }
  const auto livesAndIsSilent = [this](const Answer& answer) {
    return !answer.report && mesh_.visibleProcess(answer.peer);
  };
  std::vector<Answer> answers =
      enquire(Deadline::after(std::clamp(call_.timeout / 200, kShortestEnquiry, kLongestEnquiry)));
  if (std::any_of(answers.begin(), answers.end(), livesAndIsSilent)) {
    std::vector<Answer> again = enquire(Deadline::after(kCrowdedEnquiry));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (again[i].report) {  // else what it has said before still holds
        answers[i] = std::move(again[i]);
      }
    }
  }
  const std::vector<int> needed = awaited();
  for (const auto& [peer, report] : answers) {
    const bool counts = std::find(needed.begin(), needed.end(), peer) != needed.end() ||
                        !mesh_.visibleProcess(peer);
    if (report ? report->seq < seq_ : counts) {
      late.push_back(peer);
    }
  }
  return late.empty() ? needed : late;
}

void Courier::throwTimeout() {
  const std::vector<int> late = laggards();
  // Who gave up for the same reason a moment before has said why, and may be gone already.
  if (const auto told = mesh_.toldCause()) {
    throw Mesh::Lost{*told};
  }
  throw Mesh::Lost{{.reason = Reason::TIMEOUT,
                    .culprits = late,
                    .reporter = rank(),
                    .seq = seq_,
                    .text = str(call_.name, " timed out: Timed out waiting ", call_.timeout.count(),
                                "ms. Waiting for ", inWords(late))}};
}

AbortCause Courier::mismatch(int peer, const Frame& theirs, std::size_t expected) const {
  // What was not heard in its own operation is heard in the next with that rank.
  const auto older = theirs.seq < seq_ ? mesh_.calls().at(theirs.seq) : std::nullopt;
  const Call& mine = older ? *older : call_;
  const std::string here = describe_(mine);
  const std::string there = describe_(theirs.call);
  std::string how;
  if (here == there && mine.algorithm != theirs.call.algorithm) {
    how = str("; ", mesh_.nameOf(peer), " does it by another algorithm");
  } else if (here == there && theirs.seq == seq_) {
    how = str("; ", mesh_.nameOf(peer), " gives ", theirs.bytes, " bytes where ", expected,
              " are expected");
  } else if (!older && theirs.seq != seq_) {
    how = str("; ", mesh_.nameOf(peer), " is at operation ", theirs.seq, ", ", mesh_.nameOf(rank()),
              " at ", seq_);
  }
  return {.reason = Reason::MISMATCH,
          .culprits = {std::min(peer, rank()), std::max(peer, rank())},
          .reporter = rank(),
          .seq = std::min(seq_, theirs.seq),
          .text = str("the ranks do not call the same: ", mesh_.nameOf(rank()), " calls ", here,
                      ", ", mesh_.nameOf(peer), " calls ", there, how)};
}

std::string Courier::inWords(const std::vector<int>& ranks) const {
  std::vector<std::string> names;
  for (const int rank : ranks) {
    names.push_back(str(mesh_.nameOf(rank), " (", mesh_.describe(rank), ")"));
  }
  return join(names, ", ");
}

void Courier::throwCauseHere(const AbortCause& cause) const {
  ErrorFacts facts{.op = std::string(call_.name),
                   .seq = static_cast<std::int64_t>(seq_),
                   .group = mesh_.group(),
                   .rank = rank(),
                   .world = size()};
  if (deadline_) {
    facts.elapsed = elapsedSince(start_);
  }
  throwCause(cause, std::move(facts), mesh_.inWorld(mesh_.culpritsNow(cause)));
}

}  // namespace unisono::mesh
