#include "linear/search.hpp"

#include <algorithm>

#include "base/str.hpp"
#include "linear/model.hpp"

namespace unisono::linear {
namespace {

constexpr std::size_t kMostSeen = 4'000'000;  // places that are kept in mind: 200 MiB

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0xd6e8feb86659fd93U + b + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

Search::Search(const std::vector<const Event*>& events, std::vector<Lane> lanes)
    : events_(events), lanes_(std::move(lanes)) {
  for (const Lane& lane : lanes_) {
    unexplained_ += lane.answered ? lane.calls.size() : 0;
  }
}

/// What may come next, the most urgent first. A look that agrees with the state is put in order at
/// once: whatever order there is from here on, there is one that begins with it, unless `mayLose`.
Search::Place Search::look() {
  std::int64_t firstEnd = kNever;
  for (const Lane& lane : lanes_) {
    if (!lane.finished() && lane.head().end < firstEnd) {
      firstEnd = lane.head().end;
      if (furthest_ == nullptr || firstEnd > furthest_->end) {
        furthest_ = lane.head().event;
      }
    }
  }
  std::vector<std::size_t> lanes;
  std::size_t agreed = lanes_.size();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].finished() || lanes_[i].head().start > firstEnd) {
      continue;
    }
    mayCome(i);
    const Event& event = *lanes_[i].head().event;
    if (!isLook(event)) {
      lanes.push_back(i);
    } else if (agrees(event)) {
      agreed = i;
    }
  }
  const bool leavesOut = !shuffles_ || !mayLose() || luck_.next() % 3 != 0;
  if (agreed < lanes_.size() && leavesOut) {
    lanes = {agreed};
  } else if (agreed < lanes_.size()) {
    lanes.push_back(agreed);
  }
  std::sort(lanes.begin(), lanes.end(), [&](std::size_t a, std::size_t b) {
    return lanes_[a].head().end < lanes_[b].head().end;
  });
  if (leavesOut) {
    thin(lanes);
  }
  Place place;
  for (const std::size_t lane : lanes) {
    for (std::size_t way = ways(lane); way-- > 0;) {
      place.choices.push_back({lane, way});
    }
  }
  for (std::size_t i = 1; shuffles_ && i < place.choices.size(); ++i) {
    if (luck_.next() % 4 == 0) {
      std::swap(place.choices[i - 1], place.choices[i]);
    }
  }
  return place;
}

void Search::advance(std::size_t lane, bool forward) {
  std::size_t& done = lanes_[lane].done;
  progress_ ^= mixed(lane, done);
  forward ? ++done : --done;
  progress_ ^= mixed(lane, done);
  const std::size_t one = lanes_[lane].answered ? 1 : 0;
  unexplained_ = forward ? unexplained_ - one : unexplained_ + one;
}

/// False if that cannot be right, or was tried before.
bool Search::take(const Choice& choice) {
  if (!enter(choice.lane, choice.way)) {
    return false;
  }
  advance(choice.lane, true);
  if (seen_.emplace(progress_, hash()).second) {
    return true;
  }
  takeBack();
  return false;
}

/// The choice that was made last at the last place.
void Search::takeBack() {
  const std::size_t lane = places_.back().choices[places_.back().next - 1].lane;
  advance(lane, false);
  leave(lane);
}

/// The calls that were open when the one that got furthest found no place.
Verdict Search::stuck() const {
  std::vector<std::string> lines;
  for (const Event* event : events_) {
    if (event->start <= furthest_->end && event->end >= furthest_->start) {
      lines.push_back(describe(*event));
    }
  }
  return {.kind = Verdict::Kind::WRONG,
          .why = str("no order explains ", describe(*furthest_), " among: ", join(lines, "; ", 12),
                     hint())};
}

/// Goes back up to so many places, and on from there with other choices. Of the places in between
/// it is not known whether they lead nowhere; of those that were left before, it is, unless orders
/// are left out.
void Search::goBack(std::size_t most) {
  for (std::size_t count = 1 + luck_.next() % most; count > 0 && places_.size() > 1; --count) {
    seen_.erase({progress_, hash()});
    places_.pop_back();
    takeBack();
  }
  if (mayLose() || seen_.size() > kMostSeen) {
    seen_.clear();
  }
  shuffles_ = true;
  places_.back() = look();
}

Verdict Search::run(std::size_t mostSteps) {
  // A wrong choice may show only much later, and then everything in between would be tried in vain.
  // So whoever has not come further for so many steps goes back, each time further.
  constexpr std::size_t kPatience = 4000;
  constexpr std::size_t kNear = 32;
  constexpr std::size_t kFar = 8192;
  if (impossible() != nullptr) {
    return {.kind = Verdict::Kind::WRONG,
            .why = str("nothing was written that explains ", describe(*impossible()))};
  }
  places_.push_back(look());
  std::size_t steps = 0;
  std::size_t least = unexplained_;
  std::size_t inVain = 0;
  std::size_t back = kNear;
  for (; unexplained_ > 0; ++steps) {
    if (steps == mostSteps) {
      return {.kind = Verdict::Kind::TOO_LONG,
              .steps = steps,
              .why = str("the search was given up near ", describe(*furthest_))};
    }
    Place& place = places_.back();
    if (place.next < place.choices.size()) {
      if (take(place.choices[place.next++])) {
        places_.push_back(look());
      }
    } else if (places_.size() == 1) {
      Verdict verdict = stuck();
      verdict.steps = steps;
      return verdict;
    } else {
      places_.pop_back();
      takeBack();
    }
    if (unexplained_ < least) {
      least = unexplained_;
      inVain = 0;
      back = kNear;
    } else if (++inVain % kPatience == 0) {
      goBack(back);
      back = back < kFar ? 2 * back : kNear;
    }
  }
  return {.steps = steps};
}

}  // namespace unisono::linear
