// KvTable: what a store remembers, without sockets, threads or clocks.
//
// Values, queues, and who waits for what. Those who wait are known by a number
// that the caller chooses; a change collects the waits it ended, and the caller
// takes them (takeWakes) and answers. HashStore puts a lock around it, the TCP
// server a loop: the rules of every store are these.
//
// A name is *present* when it has a value, or its queue holds something. A wait
// ends when all its names are present at one moment, looked at after every change:
// a key that was set and deleted again does not count.
//
// What is about very many names can be done in slices (beginWait, beginRemoval): the caller does
// other things in between, and comes back (work) until all is done.
//
// Thread safety: none; the owner serialises.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "store/limits.hpp"

namespace unisono {

using WaitId = std::uint64_t;

/// A wait that ended.
struct Wake {
  WaitId id;
  std::optional<std::string> element;  // what a waiting pop got
  // The queue whose push ended a polite wait (see WaitFor), or none.
  std::optional<std::string> queue;
  // How many keys a removal took away that was done in slices.
  std::optional<std::int64_t> removed = std::nullopt;
};

/// What a wait is satisfied with.
enum class WaitFor : std::uint8_t {
  VALUES,    // a value at every name: what get() needs
  PRESENCE,  // a value or a queue that holds something
  // As PRESENCE, but of several such waits a push ends only the oldest: it is about to pop,
  // and for the others there would be nothing left. If it does not, passOn() ends the next.
  PRESENCE_POLITELY,
};

class KvTable {
 public:
  explicit KvTable(const StoreLimits& limits = {});
  ~KvTable();
  KvTable(const KvTable&) = delete;
  KvTable& operator=(const KvTable&) = delete;

  /// Refusals (LIMIT, USAGE) leave everything as it was.
  Status set(std::string_view key, std::string_view value);
  Status append(std::string_view key, std::string_view value);
  /// All or nothing.
  Status multiSet(std::span<const std::string_view> keys, std::span<const std::string_view> values);
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);

  /// The value at `key`, or null. Valid until the next change.
  const std::string* find(std::string_view key) const;

  struct Compared {
    enum class Outcome : std::uint8_t { STORED, DIFFERENT, MISSING } outcome;
    std::string_view value;  // the value after the call; `expected` when MISSING
  };
  Result<Compared> compareSet(std::string_view key, std::string_view expected,
                              std::string_view desired);

  bool remove(std::string_view key);
  std::int64_t removePrefix(std::string_view prefix);
  bool allPresent(std::span<const std::string_view> keys) const;
  bool allHaveValues(std::span<const std::string_view> keys) const;
  /// Whether a wait for `keys` would end at once.
  bool allThere(std::span<const std::string_view> keys, WaitFor what) const;
  std::size_t size() const noexcept { return valued_.size(); }
  /// The keys that have a value, in order.
  std::vector<std::string_view> keys() const;

  Status push(std::string_view name, std::string_view element);
  std::optional<std::string> pop(std::string_view name);
  std::size_t queueLength(std::string_view name) const;

  /// True when satisfied now; otherwise `id` waits (instead of what it waited for before).
  Result<bool> wait(WaitId id, std::span<const std::string_view> keys, WaitFor what);

  /// The oldest element, or none, and `id` waits for the next one.
  Result<std::optional<std::string>> popOrWait(WaitId id, std::string_view name);

  /// Counts one arrival at `key`, which ends the waits of earlier ones that it completes. True
  /// when `worldSize` have arrived; otherwise `id` waits for them.
  Result<bool> arrive(WaitId id, std::string_view key, std::int64_t worldSize);

  /// As wait(), for very many keys: looks at none of them, work() does. When that finds all of
  /// them satisfied, `id` is among the wakes.
  Status beginWait(WaitId id, std::span<const std::string_view> keys, WaitFor what);

  /// Deletes those keys that begin with `prefix` and have a value now, one after the other: how
  /// many, if that is done at once; otherwise work() goes on, and in the end wakes `id`, whether
  /// it has gone or not. Keys that get a value meanwhile stay.
  std::optional<std::int64_t> beginRemoval(WaitId id, std::string_view prefix);

  /// Goes on with what is done in slices, and looks at no more than `most` names (but at one).
  /// Returns at how many.
  std::size_t work(std::size_t most);
  bool anyWork() const noexcept { return over_ || !linking_.empty() || !removals_.empty(); }

  /// `id` waits no longer: it gave up or is gone.
  void cancelWait(WaitId id);

  /// The waiter that a push to `name` ended did not pop: the next may.
  void passOn(std::string_view name);

  /// The waits ended since the last call, in the order in which they ended.
  std::vector<Wake> takeWakes();
  bool anyWakes() const noexcept { return !wakes_.empty(); }

  std::uint64_t contentBytes() const noexcept { return bytes_ + reserved_.bytes; }
  /// Queues that hold something, and what they hold together.
  std::size_t queueCount() const noexcept { return queues_; }
  std::size_t queuedCount() const noexcept { return queued_; }
  std::size_t waitCount() const noexcept { return waits_.size(); }

 private:
  struct Wait;
  struct Sleepers;
  struct Entry;
  /// Not noexcept: that tells the map to keep the hash beside each name, instead of computing those
  /// of a name's neighbours anew whenever it is looked up.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using Map = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;
  using Node = Map::value_type;
  struct Before;
  struct Removal;
  enum class Change : std::uint8_t { SET, PUSHED, TAKEN };
  struct Growth {
    std::uint64_t bytes = 0;
    std::uint64_t keys = 0;
  };

  /// What room is asked for. Waits have an eighth more: who filled the store must not keep others
  /// from waiting.
  enum class Room : std::uint8_t { CONTENTS, WAITS };

  /// A name, and its node if there is one: looked up once, used several times.
  struct Place {
    std::string_view name;
    Node* node;
    std::string_view value() const noexcept;  // empty when there is none
  };

  Place placeOf(std::string_view name);
  Node& nodeAt(Place place);
  void dropIfEmpty(Node& node);
  static Growth growthWith(Place place, std::uint64_t bytes);
  static Growth growth(Place place, std::uint64_t newSize);
  Status admit(Growth more, Room room = Room::CONTENTS) const;
  Status admitSize(std::uint64_t size) const;
  Status admitValue(Place place, std::uint64_t newSize) const;
  void store(Node& node, std::string_view value);
  void changed(Node& node, const Before& before, Change change);
  void endBarriers(Node& node, std::int64_t count);
  void end(Wait& wait, std::optional<std::string> element, std::optional<std::string> queue);
  void link(Wait& wait, Node& node, std::list<Wait*>& list);
  void unlink(Wait& wait, std::size_t count);
  Wait& newWait(WaitId id);
  void dropValue(Node& node);

  // What is done in slices (kv_slices.cpp).
  void linkNext(Wait& wait);
  void stopLinking(Wait& wait) noexcept;
  std::size_t linkSome(std::size_t most);
  std::size_t unlinkSome(std::size_t most);
  std::size_t removeSome(Removal& removal, std::size_t most);
  std::size_t removeSome(std::size_t most);

  const StoreLimits limits_;
  Map entries_;
  std::unordered_map<WaitId, std::unique_ptr<Wait>> waits_;
  std::vector<Wake> wakes_;
  // The keys in entries_ that have a value: listing or deleting some must not cost a look at all
  // names that somebody waits for.
  std::set<std::string_view> valued_;
  std::uint64_t bytes_ = 0;
  std::size_t queues_ = 0;
  std::size_t queued_ = 0;
  std::uint64_t births_ = 0;    // of values where there was none
  Growth reserved_;             // for names that are still to be linked
  std::list<Wait*> linking_;    // waits that have such names
  std::unique_ptr<Wait> over_;  // waits that have ended, but are linked; a chain
  std::list<Removal> removals_;
  unsigned turn_ = 0;  // which of the three work() looks after next
};

}  // namespace unisono
