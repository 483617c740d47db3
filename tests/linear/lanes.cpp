#include "linear/lanes.hpp"

#include <algorithm>
#include <map>

#include "base/str.hpp"
#include "linear/model.hpp"

namespace unisono::linear {
namespace {

/// All that was told to clients: a write of which nothing is in there was seen by nobody.
std::string allTexts(const std::vector<const Event*>& events) {
  std::string all;
  for (const Event* event : events) {
    all += join(event->texts, "\n", event->texts.size()) + "\n";
    if (event->op == Op::COMPARE_SET && event->known) {
      all += event->values[0] + "\n";  // it was found, or another value was told
    }
  }
  return all;
}

bool isSeen(const std::string& value, const std::string& texts) {
  return !value.empty() && texts.find(value) != std::string::npos;
}

/// The name of the lane that `event` belongs to.
std::string nameOfLane(const Event& event, bool alike, const std::string& texts) {
  if (event.known) {
    return str("client ", event.client);
  }
  std::vector<std::string> values = event.values;
  for (std::size_t i = event.op == Op::COMPARE_SET ? 1 : 0; i < values.size(); ++i) {
    if (alike && !isSeen(values[i], texts)) {
      values[i].clear();
    }
  }
  return str(nameOf(event.op), " ", join(event.keys, " ", event.keys.size()), " ", event.number,
             " ", join(values, " ", values.size()));
}

}  // namespace

std::vector<Lane> makeLanes(const std::vector<const Event*>& events,
                            const std::function<bool(const Event&)>& alike) {
  const std::string texts = allTexts(events);
  std::map<std::string, Lane> named;
  for (const Event* event : events) {
    if (event->known || !isLook(*event)) {
      Lane& lane = named[nameOfLane(*event, alike(*event), texts)];
      lane.answered = event->known;
      lane.calls.push_back({event, event->start, lastMoment(*event)});
    }
  }
  std::vector<Lane> lanes;
  for (auto& [name, lane] : named) {
    std::stable_sort(lane.calls.begin(), lane.calls.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    for (std::size_t i = lane.calls.size(); i-- > 1;) {
      lane.calls[i - 1].end = std::min(lane.calls[i - 1].end, lane.calls[i].end);
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace unisono::linear
