#include "explore/machine.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <linux/futex.h>

#include "unisono/base/error.hpp"

namespace unisono::explore {
namespace {

Machine* theOne = nullptr;

std::uint8_t small(int rank) noexcept {
  return static_cast<std::uint8_t>(rank);
}

}  // namespace

Machine::Machine() = default;
Machine::~Machine() = default;

Machine* Machine::running() noexcept {
  return theOne;
}

// --- a run ---

Run Machine::run(const std::vector<Body>& bodies, Strategy& strategy) {
  while (ranks_.size() < bodies.size()) {
    ranks_.emplace_back();
  }
  while (ranks_.size() > bodies.size()) {
    ranks_.pop_back();
  }
  run_ = {};
  strategy_ = &strategy;
  start_ = now_ = TimePoint(std::chrono::hours(1));
  current_ = 0;
  next_ = lateSleeper_ = -1;
  protected_ = false;
  for (int rank = 0; rank < size(); ++rank) {
    Rank& each = at(rank);
    each.end = {};
    each.sleeps = false;
    each.buffer.clear();
    each.lives.clear();
    each.fiber.begin([this, rank, &bodies] { live(rank, bodies[static_cast<std::size_t>(rank)]); });
  }
  theOne = this;
  loop();
  theOne = nullptr;
  for (Rank& each : ranks_) {
    run_.ends.push_back(std::move(each.end));
  }
  return std::move(run_);
}

void Machine::live(int rank, const Body& body) {
  End& end = at(rank).end;
  End::How how = End::FINISHED;
  try {
    body();
  } catch (const DistError& error) {
    how = End::FAILED;
    end.reason = token(error.reason());
    end.text = error.what();
    end.culprits = error.facts().culprits;
  } catch (const std::exception& error) {
    how = End::FAILED;
    end.reason = "?";
    end.text = error.what();
  }
  drain(rank);
  progress(nullptr);
  end.how = how;
  end.when = now_;
}

void Machine::loop() {
  for (int rank = 0; rank >= 0 && run_.broken.empty(); rank = pickNext()) {
    lateSleeper_ = lateSleeper_ == rank ? rank : -1;
    current_ = rank;
    at(rank).sleeps = false;
    next_ = -1;
    at(rank).fiber.resume();
  }
}

/// Who runs after the current rank has given way, gone to sleep or ended; -1 at the end of all.
int Machine::pickNext() {
  if (next_ >= 0) {
    return next_;
  }
  std::array<Option, 32> options;
  std::size_t count = 0;
  for (int turn = 1; turn <= size(); ++turn) {
    const int rank = (current_ + turn) % size();
    if (at(rank).end.how == End::RUNNING && !at(rank).sleeps) {
      // Another than the next one in turn is unusual: free choices here would be too many to try.
      options[count] = {Option::RUN, small(rank), small(count > 0 ? 1 : 0), false};
      ++count;
    }
  }
  if (count == 0) {
    return pickSleeper();
  }
  for (int rank = 0; rank < size(); ++rank) {
    if (at(rank).end.how == End::RUNNING && at(rank).sleeps && rank != current_) {
      options[count++] = {Option::RUN, small(rank), 1, true};
    }
  }
  return ask({options.data(), count}).rank;
}

/// Everybody sleeps: time passes until the first sleep is over.
int Machine::pickSleeper() {
  int first = -1;
  for (int rank = 0; rank < size(); ++rank) {
    const bool sleeps = at(rank).end.how == End::RUNNING && at(rank).sleeps;
    if (sleeps && (first < 0 || at(rank).due < at(first).due)) {
      first = rank;
    }
  }
  if (first < 0) {
    return -1;
  }
  now_ = std::max(now_, at(first).due);
  if (now_ - start_ > kLongestRun) {
    breakPromise("rank " + std::to_string(first) + " waits for ever");
    return -1;
  }
  const bool byTimeAlone = at(first).sleepsOn != nullptr && run_.victim < 0;
  lateSleeper_ = byTimeAlone ? first : -1;
  return first;
}

const Option& Machine::ask(std::span<const Option> options) {
  const std::uint64_t here = run_.points++;
  if (run_.points > kMostPoints && run_.broken.empty()) {
    breakPromise("the run does not end");
  }
  if (options.size() == 1 || !strategy_->isCurious()) {
    return options[0];
  }
  const std::size_t taken = strategy_->choose(here, options);
  if (taken != 0) {
    note(run_.schedule, here, options[taken]);
  }
  return options[taken];
}

void Machine::breakPromise(const std::string& what) {
  run_.broken = run_.broken.empty() ? what : run_.broken;
}

// --- points ---

TimePoint Machine::now() noexcept {
  now_ += std::chrono::nanoseconds(100);  // so that nobody who only looks at the clock stays
  return now_;
}

bool Machine::point(const Access& access) {
  const bool weakChange = access.kind == Access::CHANGE && access.strong &&
                          ((mistake_ == Mistake::WEAK_PUBLICATION && !isDoor(access.address)) ||
                           (mistake_ == Mistake::WEAK_MARKS && isDoor(access.address)));
  const bool delayable = (access.kind == Access::STORE && !access.strong) || weakChange;
  std::array<Option, 32> options;
  std::size_t count = 0;
  options[count++] = {Option::GO_ON, small(current_), 0, false};
  for (int turn = 1; turn < size(); ++turn) {
    const int rank = (current_ + turn) % size();
    if (at(rank).end.how == End::RUNNING) {
      options[count++] = {Option::RUN, small(rank), 1, at(rank).sleeps};
    }
  }
  if (run_.victim < 0 && !protected_) {
    options[count++] = {Option::KILL, small(current_), 0, false};
  }
  if (delayable) {
    options[count++] = {Option::DELAY, small(current_), 1, false};
  }
  const Option taken = ask({options.data(), count});
  if (!run_.broken.empty()) {
    at(current_).fiber.leave();  // for good
  }
  if (taken.kind == Option::KILL) {
    kill();
  } else if (taken.kind == Option::RUN) {
    next_ = taken.rank;
    at(current_).fiber.leave();
  }
  if (access.kind != Access::LOAD) {
    progress(access.address);
  }
  const bool behindOthers = delayable && !at(current_).buffer.empty();
  if (access.kind != Access::LOAD && !delayable) {
    drain();
  }
  return taken.kind == Option::DELAY || behindOthers;
}

/// Something has come of it that a rank was woken by time alone: it could have known earlier.
void Machine::progress(const volatile void* address) {
  if (lateSleeper_ == current_ && !isDoor(address)) {
    lateSleeper_ = -1;
    run_.late += 1;
  }
}

bool Machine::isDoor(const volatile void* address) const noexcept {
  return std::find(doors_.begin(), doors_.end(), address) != doors_.end();
}

void Machine::kill() {
  Rank& dying = at(current_);
  drain();  // what the processor has taken on reaches memory, whatever becomes of the process
  for (std::uint32_t* word : dying.lives) {
    *word = mistake_ == Mistake::SILENT_DEATHS ? *word : (*word & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
  }
  run_.victim = current_;
  run_.killedAt = now_;
  dying.end.how = End::KILLED;
  dying.end.when = now_;
  dying.fiber.leave();  // for good
}

void Machine::holdLife(std::uint32_t& word) {
  word = static_cast<std::uint32_t>(current_) + 1;
  at(current_).lives.push_back(&word);
}

void Machine::letLifeGo(std::uint32_t& word) {
  word = 0;
  std::erase(at(current_).lives, &word);
}

// --- store buffers ---

void Machine::delay(const Access& access, std::uint64_t value) {
  std::deque<Delayed>& buffer = at(current_).buffer;
  if (buffer.size() == kBuffer) {
    apply(buffer.front());
    buffer.pop_front();
  }
  buffer.push_back({access, value});
}

bool Machine::findDelayed(const Access& access, std::uint64_t& value) const {
  const auto& buffer = ranks_[static_cast<std::size_t>(current_)].buffer;
  for (auto store = buffer.rbegin(); store != buffer.rend(); ++store) {
    if (store->access.address == access.address) {
      value = store->value;
      return true;
    }
  }
  return false;
}

void Machine::drain(int rank) {
  for (const Delayed& store : at(rank).buffer) {
    apply(store);
  }
  at(rank).buffer.clear();
}

void Machine::apply(const Delayed& store) {
  // Little-endian, as the layout of the memory is.
  std::memcpy(const_cast<void*>(store.access.address), &store.value, store.access.bytes);
}

// --- sleeping ---

void Machine::sleepOn(const volatile std::uint32_t* word, std::uint32_t seen, Milliseconds most) {
  const bool stays = point({const_cast<std::uint32_t*>(word), sizeof *word, Access::LOAD, true});
  static_cast<void>(stays);
  drain();
  if (*word == seen) {
    nap(word, now_ + most);
  }
}

void Machine::sleepFor(std::chrono::nanoseconds time) {
  drain();
  nap(nullptr, now_ + time);
}

void Machine::nap(const volatile void* word, TimePoint due) {
  Rank& mine = at(current_);
  mine.sleeps = true;
  mine.sleepsOn = word;
  mine.due = due;
  if (lateSleeper_ == current_) {
    lateSleeper_ = -1;
  }
  mine.fiber.leave();
}

void Machine::wake(const volatile void* word) {
  static_cast<void>(point({const_cast<void*>(word), 4, Access::LOAD, true}));
  drain();
  for (Rank& each : ranks_) {
    if (each.sleeps && each.sleepsOn == word && mistake_ != Mistake::LOST_WAKES) {
      each.sleeps = false;
    }
  }
}

}  // namespace unisono::explore
