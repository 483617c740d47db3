#include "store/kv_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/str.hpp"
#include "store/decimal.hpp"
#include "store/kv_parts.hpp"

namespace unisono {
namespace {

// A value whose memory is not larger than this keeps it for the next one.
constexpr std::size_t kKeptValue = 64;

/// A number as text, without memory from the heap.
class Digits {
 public:
  explicit Digits(std::int64_t number) noexcept
      : end_(std::to_chars(text_.data(), text_.data() + text_.size(), number).ptr) {}
  std::string_view text() const noexcept { return {text_.data(), end_}; }
  std::size_t size() const noexcept { return text().size(); }

 private:
  std::array<char, 24> text_;
  const char* end_;
};

}  // namespace

KvTable::KvTable(const StoreLimits& limits) : limits_(limits) {}

KvTable::~KvTable() {
  while (over_) {
    over_ = std::move(over_->next);  // one after the other: they may be very many
  }
}

std::string_view KvTable::Place::value() const noexcept {
  return node != nullptr && node->second.value ? std::string_view(*node->second.value)
                                               : std::string_view();
}

KvTable::Place KvTable::placeOf(std::string_view name) {
  const auto found = entries_.find(name);
  return {name, found == entries_.end() ? nullptr : &*found};
}

KvTable::Node& KvTable::nodeAt(Place place) {
  if (place.node != nullptr) {
    return *place.node;
  }
  const auto made = entries_.emplace(std::string(place.name), Entry{}).first;
  bytes_ += place.name.size() + kEntryOverhead;
  return *made;
}

void KvTable::dropIfEmpty(Node& node) {
  Entry& entry = node.second;
  if (entry.queue && entry.queue->empty()) {
    entry.queue.reset();
    --queues_;
  }
  if (entry.sleepers && entry.sleepers->none()) {
    entry.sleepers.reset();
  }
  if (!entry.hasValue() && !entry.queue && !entry.sleepers) {
    bytes_ -= node.first.size() + kEntryOverhead;
    entries_.erase(entries_.find(node.first));
  }
}

Status KvTable::admit(Growth more, Room room) const {
  const std::uint64_t extra = room == Room::WAITS ? 1 : 0;
  if (contentBytes() + more.bytes > limits_.contentBytes + extra * (limits_.contentBytes / 8)) {
    return {Reason::LIMIT, str("the store is full: its limit is ",
                               formatBytes(limits_.contentBytes), " of contents")};
  }
  if (entries_.size() + reserved_.keys + more.keys > limits_.keys + extra * (limits_.keys / 8)) {
    return {Reason::LIMIT, str("the store is full: its limit is ", limits_.keys, " keys")};
  }
  return Status::ok();
}

/// What it takes to remember the name and `bytes` more about it.
KvTable::Growth KvTable::growthWith(Place place, std::uint64_t bytes) {
  const bool known = place.node != nullptr;
  return {bytes + (known ? 0 : place.name.size() + kEntryOverhead), known ? 0U : 1U};
}

Status KvTable::admitSize(std::uint64_t size) const {
  if (size <= limits_.valueBytes) {
    return Status::ok();
  }
  return {Reason::LIMIT,
          str("the value would have ", size, " bytes; the limit is ", limits_.valueBytes)};
}

/// What it takes to keep a value of `newSize` bytes.
KvTable::Growth KvTable::growth(Place place, std::uint64_t newSize) {
  const std::uint64_t oldSize = place.value().size();
  return growthWith(place, newSize > oldSize ? newSize - oldSize : 0);
}

Status KvTable::admitValue(Place place, std::uint64_t newSize) const {
  Status status = admitSize(newSize);
  return status.isOk() ? admit(growth(place, newSize)) : status;
}

void KvTable::store(Node& node, std::string_view value) {
  Entry& entry = node.second;
  const Before before(entry);
  if (entry.value) {
    bytes_ -= entry.value->size();
  } else {
    valued_.insert(node.first);
    entry.born = ++births_;
  }
  bytes_ += value.size();
  if (entry.value && entry.value->capacity() <= kKeptValue) {
    entry.value->assign(value);
  } else {
    entry.value.emplace(std::string(value));  // assigning would keep the memory of a long text
  }
  changed(node, before, Change::SET);
}

/// Keeps the books of those who sleep on `node`, and ends the waits that are satisfied now.
void KvTable::changed(Node& node, const Before& before, Change change) {
  Entry& entry = node.second;
  if (!entry.sleepers || entry.sleepers->presence.empty()) {
    return;
  }
  const bool hasValue = entry.hasValue();
  const bool present = entry.present();
  bool politeOneWoken = false;
  std::vector<Wait*> ended;
  for (Wait* wait : entry.sleepers->presence) {
    const bool was = wait->satisfiedBy(before.hasValue, before.present);
    const bool is = wait->satisfiedBy(hasValue, present);
    wait->missing += was ? 1 : 0;
    wait->missing -= is ? 1 : 0;
    if (wait->missing > 0 || wait->unlinked || wait->over || change == Change::TAKEN) {
      continue;  // taking something away satisfies nobody
    }
    const bool polite = change == Change::PUSHED && wait->what == WaitFor::PRESENCE_POLITELY;
    if (polite && politeOneWoken) {
      continue;
    }
    politeOneWoken = politeOneWoken || polite;
    ended.push_back(wait);
  }
  for (Wait* wait : ended) {
    const bool polite = change == Change::PUSHED && wait->what == WaitFor::PRESENCE_POLITELY;
    end(*wait, std::nullopt, polite ? std::optional(node.first) : std::nullopt);
  }
}

void KvTable::end(Wait& wait, std::optional<std::string> element,
                  std::optional<std::string> queue) {
  wakes_.push_back({wait.id, std::move(element), std::move(queue)});
  cancelWait(wait.id);
}

void KvTable::cancelWait(WaitId id) {
  const auto found = waits_.find(id);
  if (found == waits_.end()) {
    return;
  }
  std::unique_ptr<Wait> wait = std::move(found->second);
  waits_.erase(found);
  if (wait->unlinked) {
    stopLinking(*wait);
  }
  if (wait->inSlices && wait->links.size() > limits_.slice) {
    wait->over = true;
    wait->next = std::move(over_);
    over_ = std::move(wait);
  } else {
    unlink(*wait, wait->links.size());
  }
}

void KvTable::link(Wait& wait, Node& node, std::list<Wait*>& list) {
  wait.links.push_back({&node, &list, list.insert(list.end(), &wait)});
  bytes_ += kWaitOverhead;
}

/// Takes the last `count` links of `wait` away, and names that nothing else keeps.
void KvTable::unlink(Wait& wait, std::size_t count) {
  bytes_ -= count * kWaitOverhead;
  for (; count > 0; --count) {
    const Wait::Link link = wait.links.back();
    wait.links.pop_back();
    link.list->erase(link.place);
    dropIfEmpty(*link.node);  // a wait that is linked to it twice keeps it for the second time
  }
}

KvTable::Wait& KvTable::newWait(WaitId id) {
  cancelWait(id);
  auto wait = std::make_unique<Wait>();
  wait->id = id;
  return *waits_.emplace(id, std::move(wait)).first->second;
}

std::vector<Wake> KvTable::takeWakes() {
  return std::exchange(wakes_, {});
}

Status KvTable::set(std::string_view key, std::string_view value) {
  const Place place = placeOf(key);
  if (Status status = admitValue(place, value.size()); !status.isOk()) {
    return status;
  }
  store(nodeAt(place), value);
  return Status::ok();
}

Status KvTable::append(std::string_view key, std::string_view value) {
  const Place place = placeOf(key);
  const std::uint64_t newSize = place.value().size() + value.size();
  if (Status status = admitValue(place, newSize); !status.isOk()) {
    return status;
  }
  Node& node = nodeAt(place);
  if (node.second.value) {
    bytes_ += value.size();
    node.second.value->append(value);  // present before and after: nobody's wait changes
  } else {
    store(node, value);
  }
  return Status::ok();
}

Status KvTable::multiSet(std::span<const std::string_view> keys,
                         std::span<const std::string_view> values) {
  Growth total;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (Status status = admitSize(values[i].size()); !status.isOk()) {
      return status;
    }
    const Growth more = growth(placeOf(keys[i]), values[i].size());
    total.bytes += more.bytes;
    total.keys += more.keys;
  }
  if (Status status = admit(total); !status.isOk()) {
    return status;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    store(nodeAt(placeOf(keys[i])), values[i]);
  }
  return Status::ok();
}

Result<std::int64_t> KvTable::add(std::string_view key, std::int64_t delta) {
  const Place place = placeOf(key);
  Result<std::int64_t> sum = addDecimal(place.value(), delta);
  if (!sum.isOk()) {
    return sum;
  }
  const Digits digits(sum.value());
  if (Status status = admitValue(place, digits.size()); !status.isOk()) {
    return status;
  }
  store(nodeAt(place), digits.text());
  return sum;
}

const std::string* KvTable::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || !found->second.value ? nullptr : &*found->second.value;
}

Result<KvTable::Compared> KvTable::compareSet(std::string_view key, std::string_view expected,
                                              std::string_view desired) {
  const std::string* current = find(key);
  if (current == nullptr && !expected.empty()) {
    return Compared{Compared::Outcome::MISSING, expected};
  }
  if (current != nullptr && *current != expected) {
    return Compared{Compared::Outcome::DIFFERENT, *current};
  }
  if (Status status = set(key, desired); !status.isOk()) {
    return status;
  }
  return Compared{Compared::Outcome::STORED, desired};
}

bool KvTable::remove(std::string_view key) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second.value) {
    return false;
  }
  valued_.erase(found->first);
  dropValue(*found);
  return true;
}

/// Takes away the value of `node`, which is in valued_ no longer, and the node if that is all.
void KvTable::dropValue(Node& node) {
  const Before before(node.second);
  bytes_ -= node.second.value->size();
  node.second.value.reset();
  changed(node, before, Change::TAKEN);
  dropIfEmpty(node);
}

bool KvTable::allPresent(std::span<const std::string_view> keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](std::string_view key) {
    const auto found = entries_.find(key);
    return found != entries_.end() && found->second.present();
  });
}

bool KvTable::allHaveValues(std::span<const std::string_view> keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [this](std::string_view key) { return find(key) != nullptr; });
}

bool KvTable::allThere(std::span<const std::string_view> keys, WaitFor what) const {
  return what == WaitFor::VALUES ? allHaveValues(keys) : allPresent(keys);
}

std::vector<std::string_view> KvTable::keys() const {
  return {valued_.begin(), valued_.end()};
}

Status KvTable::push(std::string_view name, std::string_view element) {
  if (queueLength(name) >= limits_.queueLength) {
    return {Reason::LIMIT,
            str("the queue is full: its limit is ", limits_.queueLength, " elements")};
  }
  if (Status status = admitSize(element.size()); !status.isOk()) {
    return status;
  }
  const std::uint64_t cost = element.size() + kElementOverhead;
  const Place place = placeOf(name);
  if (Status status = admit(growthWith(place, cost)); !status.isOk()) {
    return status;
  }
  Node& node = nodeAt(place);
  Entry& entry = node.second;
  if (entry.sleepers && !entry.sleepers->pops.empty()) {
    end(*entry.sleepers->pops.front(), std::string(element), std::nullopt);
    return Status::ok();
  }
  const Before before(entry);
  if (!entry.queue) {
    entry.queue = std::make_unique<std::deque<std::string>>();
    ++queues_;
  }
  entry.queue->emplace_back(element);
  ++queued_;
  bytes_ += cost;
  changed(node, before, Change::PUSHED);
  return Status::ok();
}

std::optional<std::string> KvTable::pop(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.queue) {
    return std::nullopt;
  }
  Entry& entry = found->second;
  const Before before(entry);
  std::string element = std::move(entry.queue->front());
  entry.queue->pop_front();
  --queued_;
  bytes_ -= element.size() + kElementOverhead;
  changed(*found, before, Change::TAKEN);
  dropIfEmpty(*found);
  return element;
}

std::size_t KvTable::queueLength(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() || !found->second.queue ? 0 : found->second.queue->size();
}

Result<bool> KvTable::wait(WaitId id, std::span<const std::string_view> keys, WaitFor what) {
  cancelWait(id);
  if (allThere(keys, what)) {
    return true;
  }
  std::vector<Node*> nodes;
  nodes.reserve(keys.size());
  for (const std::string_view key : keys) {
    nodes.push_back(&nodeAt(placeOf(key)));
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());  // a name twice counts once
  if (Status status = admit({.bytes = nodes.size() * kWaitOverhead}, Room::WAITS); !status.isOk()) {
    for (Node* node : nodes) {
      dropIfEmpty(*node);
    }
    return status;
  }
  Wait& wait = newWait(id);
  wait.what = what;
  wait.links.reserve(nodes.size());
  for (Node* node : nodes) {
    link(wait, *node, node->second.wakeable().presence);
    wait.missing += wait.satisfiedBy(node->second.hasValue(), node->second.present()) ? 0 : 1;
  }
  return false;
}

Result<std::optional<std::string>> KvTable::popOrWait(WaitId id, std::string_view name) {
  cancelWait(id);
  std::optional<std::string> element = pop(name);
  if (element) {
    return element;
  }
  const Place place = placeOf(name);
  if (Status status = admit(growthWith(place, kWaitOverhead), Room::WAITS); !status.isOk()) {
    return status;
  }
  Node& node = nodeAt(place);
  link(newWait(id), node, node.second.wakeable().pops);
  return element;
}

Result<bool> KvTable::arrive(WaitId id, std::string_view key, std::int64_t worldSize) {
  cancelWait(id);
  const Place place = placeOf(key);
  const Result<std::int64_t> count = addDecimal(place.value(), 1);
  if (!count.isOk()) {
    return count.failure();
  }
  const bool complete = count.value() >= worldSize;
  const Digits digits(count.value());
  if (Status status = admitSize(digits.size()); !status.isOk()) {
    return status;
  }
  Growth more = growth(place, digits.size());
  more.bytes += complete ? 0 : kWaitOverhead;
  if (Status status = admit(more); !status.isOk()) {
    return status;
  }
  Node& node = nodeAt(place);
  store(node, digits.text());
  endBarriers(node, count.value());
  if (complete) {
    return true;
  }
  Wait& wait = newWait(id);
  wait.worldSize = worldSize;
  Sleepers& sleepers = node.second.wakeable();
  sleepers.barrierFrom = std::min(sleepers.barrierFrom, worldSize);
  link(wait, node, sleepers.barrier);
  return false;
}

/// Ends the waits of those who arrived at `node` before and wait for at most `count`.
void KvTable::endBarriers(Node& node, std::int64_t count) {
  if (!node.second.sleepers || count < node.second.sleepers->barrierFrom) {
    return;
  }
  std::vector<Wait*> ended;
  std::int64_t from = std::numeric_limits<std::int64_t>::max();
  for (Wait* wait : node.second.sleepers->barrier) {
    if (wait->worldSize <= count) {
      ended.push_back(wait);
    } else {
      from = std::min(from, wait->worldSize);
    }
  }
  node.second.sleepers->barrierFrom = from;
  for (Wait* wait : ended) {
    end(*wait, std::nullopt, std::nullopt);
  }
}

void KvTable::passOn(std::string_view name) {
  const auto found = entries_.find(name);
  if (found != entries_.end() && found->second.queue) {
    changed(*found, Before(found->second), Change::PUSHED);
  }
}

}  // namespace unisono
