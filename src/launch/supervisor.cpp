#include "launch/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/str.hpp"
#include "launch/channel.hpp"
#include "launch/excerpt.hpp"
#include "launch/guardian.hpp"
#include "launch/inlet.hpp"
#include "launch/meeting.hpp"
#include "launch/outlet.hpp"
#include "launch/signals.hpp"
#include "launch/worker.hpp"

namespace unisono::launch {
namespace {

constexpr Milliseconds kStep(100);  // how exactly deadlines are kept

// How long what a rank has started may outlive it, to clean up behind it.
constexpr Milliseconds kLinger(1000);
// How long the store of node 0 waits for the ranks of other nodes, once its own have succeeded.
constexpr Milliseconds kOtherNodes = std::chrono::minutes(5);

// With more to be written, ranks must wait before they print more.
constexpr std::size_t kPauseAbove = std::size_t{1} << 20U;
constexpr std::size_t kContinueBelow = kPauseAbove / 4;

constexpr std::size_t kLastLines = 50;
constexpr std::size_t kLastLineBytes = 2000;
constexpr std::size_t kLongestAccount = std::size_t{1} << 20U;

bool isSameFile(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// The beginning of a plain file; empty when there is none.
std::string contentOf(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return "";
  }
  std::string text(kLongestAccount, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

/// When a file was written, in nanoseconds; 0 when there is none.
std::int64_t writtenAt(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0
             ? facts.st_mtim.tv_sec * std::int64_t{1'000'000'000} + facts.st_mtim.tv_nsec
             : 0;
}

Worker::Start::Input inputOf(const Job& job, int rank) {
  using Given = Worker::Start::Input;
  if (job.input == Input::ALL) {
    return Given::PIPE;
  }
  return job.input == Input::RANK_0 && rank == 0 ? Given::OURS : Given::NOTHING;
}

}  // namespace

/// A rank: its process and what it prints.
struct Supervisor::Member {
  int rank = 0;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Channel> output;
  std::unique_ptr<Channel> error;
  std::deque<std::string> lastLines;
  std::string errorFile;
};

class Supervisor::SignalWatcher final : public Watcher {
 public:
  explicit SignalWatcher(Supervisor& owner) : owner_(owner) {
    owner_.reactor_->role.assertHeld();
    if (const Status watched = owner_.reactor_->watch(owner_.signals_->fd(), {.read = true}, *this);
        !watched.isOk()) {
      throw DistError({.reason = watched.reason(), .what = watched.text()});
    }
  }
  ~SignalWatcher() override {
    owner_.reactor_->role.assertHeld();
    owner_.reactor_->unwatch(owner_.signals_->fd());
  }

 private:
  void onReady(bool /*readable*/, bool /*writable*/) noexcept override {
    while (const std::optional<int> number = owner_.signals_->next()) {
      owner_.onSignal(*number);
    }
  }
  Supervisor& owner_;
};

Supervisor::Supervisor(Setup setup)
    : setup_(std::move(setup)),
      cores_(setup_.job.binding == Binding::NONE ? std::vector<Core>() : coresOfHost()),
      folder_(setup_.logFolder, setup_.job.runId,
              setup_.keepLogs ? Folder::Fate::KEPT : Folder::Fate::REMOVED),
      reactor_(makePollReactor()),  // which takes files, too; there are few descriptors
      guardian_(std::make_unique<Guardian>(folder_.leftover())),
      // While Ctrl-C still ends it: it may ask for addresses, and wait for another node.
      meeting_(std::make_unique<Meeting>(setup_.job, folder_.secretFile())) {
  signals_ = std::make_unique<Signals>(setup_.signals);
  signalWatcher_ = std::make_unique<SignalWatcher>(*this);
  if (setup_.job.input == Input::ALL) {
    inlet_ = std::make_unique<Inlet>(*reactor_, STDIN_FILENO);
  }
  output_ = std::make_unique<Outlet>(*reactor_, STDOUT_FILENO);
  if (!isSameFile(STDOUT_FILENO, STDERR_FILENO)) {
    error_ = std::make_unique<Outlet>(*reactor_, STDERR_FILENO);
  }
}

Supervisor::~Supervisor() = default;

Outlet& Supervisor::outletFor(bool isError) noexcept {
  return isError && error_ ? *error_ : *output_;
}

void Supervisor::say(std::string_view text) {
  if (!setup_.quiet) {
    outletFor(true).push(str("unisono: ", printable(text), "\n"));
  }
}

Report Supervisor::run() {
  reactor_->role.assertHeld();
  startAttempt();
  reactor_->startTicks(kStep, [this] { step(); });
  reactor_->atTurnEnd([this] { step(); });
  reactor_->run();  // ends when the job does
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  report_.outputError = output_->error();
  report_.folder = setup_.keepLogs ? folder_.path() : "";
  return std::move(report_);
}

void Supervisor::startAttempt() {
  phase_ = Phase::RUNNING;
  patience_ = Deadline::never();
  killed_ = false;
  paused_ = false;
  report_.loss.reset();
  report_.ended.clear();
  members_.clear();
  if (inlet_) {
    inlet_->clear();
  }
  const auto excerpt = [&](const std::vector<std::string>& words, const char* file) {
    return words.empty() ? nullptr : std::make_unique<Excerpt>(folder_.of(attempt_) + file, words);
  };
  outputExcerpt_ = excerpt(setup_.job.outputWords, "/filtered_stdout.log");
  errorExcerpt_ = excerpt(setup_.job.errorWords, "/filtered_stderr.log");
  for (int localRank = 0; localRank < setup_.job.workers; ++localRank) {
    startMember(localRank);
  }
}

void Supervisor::startMember(int localRank) {
  const Job& job = setup_.job;
  const auto index = static_cast<std::size_t>(localRank);
  const std::string folder = folder_.of(localRank, attempt_);
  auto member = std::make_unique<Member>();
  member->rank = job.rankOf(localRank);
  member->errorFile = folder + "/error.json";
  member->worker = std::make_unique<Worker>(Worker::Start{
      .command = job.command,
      .environment = environmentWith(
          variablesOf(job, localRank, attempt_, meeting_->places(), member->errorFile), ::environ),
      .signalMask = signals_->maskBefore(),
      .input = inputOf(job, member->rank),
      .cores = coresFor(job.binding, cores_, localRank, job.workers)});
  guardian_->watch(member->worker->pid());
  const auto channel = [&](UniqueFd pipe, bool isError) {
    const unsigned stream = isError ? STDERR_BIT : STDOUT_BIT;
    const bool isKept = ((job.redirects[index] | job.tee[index]) & stream) != 0;
    const bool isTeed = (job.tee[index] & stream) != 0;
    const bool isShown = job.shown[index] && (!isKept || isTeed);
    Excerpt* const excerpt = isTeed ? (isError ? errorExcerpt_ : outputExcerpt_).get() : nullptr;
    return std::make_unique<Channel>(
        *reactor_, std::move(pipe),
        isKept ? folder + (isError ? "/stderr.log" : "/stdout.log") : "",
        [this, raw = member.get(), isError, isShown, excerpt](std::string_view line) {
          remember(*raw, line);
          if (excerpt != nullptr) {
            excerpt->take(raw->rank, line);
          }
          if (isShown) {
            outletFor(isError && !setup_.oneStream).push(setup_.format({raw->rank, isError}, line));
          }
        });
  };
  if (inlet_) {
    inlet_->add(member->worker->takeInput());
  }
  member->output = channel(member->worker->takeOutput(), false);
  member->error = channel(member->worker->takeError(), true);
  members_.push_back(std::move(member));
}

void Supervisor::remember(Member& member, std::string_view line) {
  if (member.lastLines.size() == kLastLines) {
    member.lastLines.pop_front();
  }
  while (line.ends_with('\n') || line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  member.lastLines.emplace_back(line.substr(0, kLastLineBytes));
}

void Supervisor::onSignal(int number) {
  if (number == SIGCHLD) {
    collect();
    return;
  }
  report_.signal = number;
  if (phase_ == Phase::RUNNING) {
    say(str(signalName(number), ": the ranks are told; they have ", formatDuration(setup_.grace),
            " to end, or until the next signal"));
    end(number);
  } else if (phase_ == Phase::DRAINING) {
    output_->drop();
    outletFor(true).drop();
    patience_ = Deadline::after(Milliseconds(0));
  } else {
    patience_ = Deadline::after(Milliseconds(0));  // enough waited
  }
}

void Supervisor::collect() {
  std::vector<Member*> failed;
  for (const auto& member : members_) {
    if (member->worker->look() && member->worker->result() != 0) {
      failed.push_back(member.get());
    }
  }
  // Of those that ended at nearly one moment, the one that crashed is not the one that noticed.
  std::stable_sort(failed.begin(), failed.end(), [](const Member* a, const Member* b) {
    return a->worker->result() < 0 && b->worker->result() >= 0;
  });
  if (!failed.empty() && phase_ == Phase::RUNNING) {
    lose(*failed.front());
  }
}

void Supervisor::lose(Member& member) {
  report_.loss = Loss{.rank = member.rank,
                      .pid = member.worker->pid(),
                      .result = member.worker->result(),
                      .lastLines = {},  // once its pipes have been read
                      .account = {}};
  for (const auto& other : members_) {
    if (!other->worker->hasEnded()) {
      report_.ended.push_back(other->rank);
    }
  }
  end(SIGTERM);
}

void Supervisor::tellAll(int number) {
  for (const auto& member : members_) {
    if (!member->worker->hasEnded()) {
      member->worker->signal(number);
      member->worker->signal(SIGCONT);  // one that is stopped could not obey
    }
  }
}

void Supervisor::end(int number) {
  phase_ = Phase::ENDING;
  patience_ = Deadline::after(setup_.grace);
  tellAll(number);
}

void Supervisor::balance() {
  const std::size_t pending = std::max(output_->pending(), outletFor(true).pending());
  const bool pause = paused_ ? pending > kContinueBelow : pending > kPauseAbove;
  if (pause != paused_) {
    paused_ = pause;
    for (const auto& member : members_) {
      member->output->pause(paused_);
      member->error->pause(paused_);
    }
  }
}

bool Supervisor::isIdle() const {
  return std::none_of(members_.begin(), members_.end(), [](const auto& member) {
    return member->output->isOpen() || member->error->isOpen();
  });
}

void Supervisor::step() {
  try {
    stepOn();
  } catch (...) {
    failure_ = std::current_exception();
    members_.clear();  // kills them
    reactor_->stop();
  }
}

void Supervisor::stepOn() {
  balance();
  meeting_->check();
  if (phase_ == Phase::RUNNING && output_->error() == EPIPE) {
    end(SIGTERM);  // as it would be without us between
  }
  if (phase_ == Phase::ENDING && patience_.expired() && !killed_) {
    killed_ = true;
    tellAll(SIGKILL);
  }
  if (phase_ == Phase::RUNNING || phase_ == Phase::ENDING) {
    if (!std::all_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member->worker->hasEnded(); })) {
      return;
    }
    phase_ = Phase::LINGERING;
    patience_ = Deadline::after(kLinger);
  }
  if (phase_ == Phase::LINGERING) {
    if (paused_ && report_.signal == 0) {
      patience_ = Deadline::after(kLinger);  // nobody has looked into the pipes
    }
    if (!isIdle() && !patience_.expired()) {
      return;
    }
    closeAttempt();
    if (phase_ == Phase::RUNNING) {
      return;
    }
  }
  const bool isOver = output_->pending() == 0 && outletFor(true).pending() == 0;
  const bool isAwaited = setup_.job.nodes > 1 && !report_.loss && report_.signal == 0 &&
                         meeting_->connectionCount() > 0 && !patience_.expired();
  // Who is told to end does not wait for a reader that has stopped reading.
  const bool isGivenUp = report_.signal != 0 && patience_.expired();
  if ((isOver && !isAwaited) || isGivenUp) {
    reactor_->stop();
  }
}

void Supervisor::findCulprit() {
  const Member* lost = nullptr;
  const Member* first = nullptr;
  for (const auto& member : members_) {
    lost = report_.loss && member->rank == report_.loss->rank ? member.get() : lost;
    if (member->worker->result() != 0 && writtenAt(member->errorFile) > 0 &&
        (first == nullptr || writtenAt(member->errorFile) < writtenAt(first->errorFile))) {
      first = member.get();
    }
  }
  if (lost == nullptr || first == nullptr || first == lost || writtenAt(lost->errorFile) == 0) {
    return;
  }
  // One that we have ended meanwhile would have ended as after every exception.
  const int result = first->worker->result();
  report_.loss->rank = first->rank;
  report_.loss->pid = first->worker->pid();
  report_.loss->result = result > 0 ? result : 1;
  std::erase(report_.ended, first->rank);
}

void Supervisor::closeAttempt() {
  findCulprit();
  for (const auto& member : members_) {
    member->worker->signal(SIGKILL);  // what is left of its group
  }
  for (const auto& member : members_) {
    member->output->close();
    member->error->close();
    guardian_->forget(member->worker->pid());
    member->worker->reap();
    if (report_.loss && report_.loss->rank == member->rank) {
      report_.loss->lastLines.assign(member->lastLines.begin(), member->lastLines.end());
      report_.loss->account = contentOf(member->errorFile);
    }
  }
  const bool again = report_.loss && report_.signal == 0 && output_->error() == 0 &&
                     attempt_ < setup_.job.maxRestarts;
  if (!again) {
    phase_ = Phase::DRAINING;
    patience_ = Deadline::after(report_.signal == 0 ? kOtherNodes : kLinger);
    return;
  }
  ++attempt_;
  ++report_.restarts;
  say(str("rank ", report_.loss->rank, " failed: all are started anew (", attempt_, " of ",
          setup_.job.maxRestarts, ")"));
  meeting_->renew();
  startAttempt();
}

}  // namespace unisono::launch
