#include "linear/queue_windows.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>

namespace unisono::linear {
namespace {

/// An element that came out.
struct Passage {
  Event* push;
  Event* pop;
};
using Side = Event* Passage::*;

bool lower(std::int64_t& time, std::int64_t to) {
  const bool lowers = to < time;
  time = lowers ? to : time;
  return lowers;
}

bool raise(std::int64_t& time, std::int64_t to) {
  const bool raises = to > time;
  time = raises ? to : time;
  return raises;
}

/// What the order on `one` side says about the other. Whether that was news.
bool carryOver(const std::vector<Passage>& passages, Side one, Side other) {
  std::vector<Passage> byStart = passages;
  std::vector<Passage> byEnd = passages;
  std::sort(byStart.begin(), byStart.end(),
            [&](const auto& a, const auto& b) { return (a.*one)->start < (b.*one)->start; });
  std::sort(byEnd.begin(), byEnd.end(),
            [&](const auto& a, const auto& b) { return (a.*one)->end < (b.*one)->end; });
  bool news = false;
  auto ended = byEnd.begin();
  std::int64_t start = std::numeric_limits<std::int64_t>::min();
  for (const Passage& passage : byStart) {
    for (; ended != byEnd.end() && ((*ended).*one)->end < (passage.*one)->start; ++ended) {
      start = std::max(start, ((*ended).*other)->start);
    }
    news |= raise((passage.*other)->start, start);
  }
  auto begun = byStart.rbegin();
  std::int64_t end = kNever;
  for (auto passage = byEnd.rbegin(); passage != byEnd.rend(); ++passage) {
    for (; begun != byStart.rend() && ((*begun).*one)->start > ((*passage).*one)->end; ++begun) {
      end = std::min(end, ((*begun).*other)->end);
    }
    news |= lower(((*passage).*other)->end, end);
  }
  return news;
}

/// Calls of one client follow each other.
bool keepTurns(const std::vector<std::vector<Event*>>& clients) {
  bool news = false;
  for (const std::vector<Event*>& calls : clients) {
    for (std::size_t i = 1; i < calls.size(); ++i) {
      news |= raise(calls[i]->start, calls[i - 1]->start);
    }
    for (std::size_t i = calls.size(); i-- > 1;) {
      news |= lower(calls[i - 1]->end, calls[i]->end);
    }
  }
  return news;
}

/// As if it had been answered, to a client of its own.
void settle(Event& event, int client, std::int64_t end) {
  event.known = true;
  event.client = client;
  event.end = end;
}

class Windows {
 public:
  explicit Windows(std::vector<Event>& events) : events_(events) {
    for (Event& event : events_) {
      if (event.op == Op::PUSH) {
        pushes_[event.values[0]] = &event;
      }
    }
    for (Event& event : events_) {
      if (event.op == Op::POP && event.known && !event.texts.empty()) {
        const auto push = pushes_.find(event.texts[0]);
        if (push != pushes_.end()) {
          cameOut(*push->second, event);
        }
      }
    }
  }

  /// Before this, elements went in that came out.
  std::int64_t lastPush() const { return lastPush_; }

  /// Lets pops without an answer take, the earliest first, what must be gone.
  void guessLost() {
    std::vector<Event*> lost;
    for (const auto& [element, push] : pushes_) {
      if (push->known && push->end < lastPush_ && !out_.contains(element)) {
        lost.push_back(push);
      }
    }
    std::vector<Event*> pops;
    for (Event& event : events_) {
      if (event.op == Op::POP && !event.known) {
        pops.push_back(&event);
      }
    }
    std::sort(lost.begin(), lost.end(),
              [](const Event* a, const Event* b) { return a->end < b->end; });
    std::sort(pops.begin(), pops.end(),
              [](const Event* a, const Event* b) { return a->start < b->start; });
    for (std::size_t i = 0; i < std::min(lost.size(), pops.size()); ++i) {
      pops[i]->texts = lost[i]->values;
      settle(*pops[i], --newClient_, kNever);
      cameOut(*lost[i], *pops[i]);
    }
  }

  void narrow() {
    std::map<int, std::vector<Event*>> byClient;
    for (Event& event : events_) {
      if (event.known) {
        byClient[event.client].push_back(&event);
      }
    }
    std::vector<std::vector<Event*>> clients;
    for (auto& [client, calls] : byClient) {
      std::stable_sort(calls.begin(), calls.end(),
                       [](const Event* a, const Event* b) { return a->start < b->start; });
      clients.push_back(std::move(calls));
    }
    constexpr int kMostRounds = 100;
    bool news = true;
    for (int round = 0; news && round < kMostRounds; ++round) {
      news = keepTurns(clients);
      news |= carryOver(passages_, &Passage::push, &Passage::pop);
      news |= carryOver(passages_, &Passage::pop, &Passage::push);
      for (const Passage& passage : passages_) {
        news |= raise(passage.pop->start, passage.push->start);
        news |= lower(passage.push->end, passage.pop->end);
      }
    }
  }

 private:
  void cameOut(Event& push, Event& pop) {
    if (!push.known) {
      settle(push, --newClient_, pop.end);
    }
    lastPush_ = std::max(lastPush_, push.start);
    out_.insert(push.values[0]);
    passages_.push_back({&push, &pop});
  }

  std::vector<Event>& events_;
  std::map<std::string, Event*> pushes_;
  std::set<std::string> out_;
  std::vector<Passage> passages_;
  std::int64_t lastPush_ = std::numeric_limits<std::int64_t>::min();
  int newClient_ = 0;  // below those that there are
};

}  // namespace

std::vector<Event> narrowed(const std::vector<const Event*>& events, Guess guess) {
  std::vector<Event> all;
  std::transform(events.begin(), events.end(), std::back_inserter(all),
                 [](const Event* event) { return *event; });
  Windows windows(all);
  if (guess != Guess::NOTHING) {
    windows.guessLost();
  }
  windows.narrow();
  if (guess == Guess::LOST_AND_NO_MORE) {
    std::erase_if(all, [last = windows.lastPush()](const Event& event) {
      return !event.known && event.start < last;
    });
  }
  return all;
}

}  // namespace unisono::linear
