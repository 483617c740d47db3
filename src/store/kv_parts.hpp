// What a KvTable is made of; only for the files that implement it.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/kv_table.hpp"

namespace unisono {

// What things cost beside their text; only roughly right, so that millions of empty ones count
// too: an entry (nodes of map and index, value header), an element of a queue, a wait per name.
constexpr std::uint64_t kEntryOverhead = 160;
constexpr std::uint64_t kElementOverhead = 48;
constexpr std::uint64_t kWaitOverhead = 64;

/// Those who sleep on one name. Most names have none.
struct KvTable::Sleepers {
  std::list<Wait*> presence;  // oldest first
  std::list<Wait*> pops;
  std::list<Wait*> barrier;
  // No wait in `barrier` ends at a smaller count: looking earlier would cost the square of the
  // world size.
  std::int64_t barrierFrom = std::numeric_limits<std::int64_t>::max();

  bool none() const noexcept { return presence.empty() && pops.empty() && barrier.empty(); }
};

struct KvTable::Entry {
  std::optional<std::string> value;
  std::uint64_t born = 0;  // what births_ was when it got a value
  std::unique_ptr<std::deque<std::string>> queue;
  std::unique_ptr<Sleepers> sleepers;

  bool hasValue() const noexcept { return value.has_value(); }
  bool present() const noexcept { return hasValue() || (queue && !queue->empty()); }
  Sleepers& wakeable() {
    if (!sleepers) {
      sleepers = std::make_unique<Sleepers>();
    }
    return *sleepers;
  }
};

/// One wait: linked into every name it is about, until it ends.
struct KvTable::Wait {
  struct Link {
    Node* node;
    std::list<Wait*>* list;
    std::list<Wait*>::iterator place;
  };
  /// Names that it is still to be linked into, one behind the other.
  struct Unlinked {
    std::string text;
    std::vector<std::size_t> ends;
    std::size_t next = 0;
    std::size_t at = 0;
    std::list<Wait*>::iterator listed;  // in linking_

    bool empty() const noexcept { return next == ends.size(); }
    std::string_view name() const noexcept {
      return std::string_view(text).substr(at, ends[next] - at);
    }
  };

  WaitId id = 0;
  WaitFor what = WaitFor::PRESENCE;
  std::size_t missing = 0;     // names that do not satisfy it at this moment
  std::int64_t worldSize = 0;  // of a barrier
  std::vector<Link> links;
  bool inSlices = false;
  bool over = false;                   // it has ended: its links mean nothing any more
  std::unique_ptr<Unlinked> unlinked;  // while there are any it cannot end
  std::unique_ptr<Wait> next;          // among those that are over

  bool satisfiedBy(bool hasValue, bool present) const noexcept {
    return what == WaitFor::VALUES ? hasValue : present;
  }
};

/// How a name stood before a change.
struct KvTable::Before {
  explicit Before(const Entry& entry) : hasValue(entry.hasValue()), present(entry.present()) {}
  bool hasValue;
  bool present;
};

/// Keys that are being deleted.
struct KvTable::Removal {
  WaitId id;
  std::string prefix;
  std::uint64_t latest;  // the last birth that it is about
  std::string place;     // it has come so far
  std::int64_t count = 0;
  bool done = false;
};

}  // namespace unisono
