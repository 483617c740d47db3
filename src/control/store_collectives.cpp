#include "unisono/control/store_collectives.hpp"

#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "store/common.hpp"
#include "store/one_deadline.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(bool, kCleanup, "UNISONO_CC_CLEANUP", "0",
             "1: the last rank to leave a control collective deletes its keys from the store; the "
             "same on all ranks");

// How long a call that has given up may ask the store who is missing.
constexpr Milliseconds kRollCall = std::chrono::seconds(5);

/// A call of one rank: what it is called in errors, and until when it may take.
struct Call {
  const char* op;
  std::string key;
  Milliseconds timeout;
  Deadline deadline = Deadline::after(timeout);
};

std::string partOf(std::string_view key, int rank) {
  return str(key, "/", rank);
}

std::vector<std::string> partsOf(std::string_view key, std::span<const int> ranks) {
  std::vector<std::string> keys;
  keys.reserve(ranks.size());
  for (const int rank : ranks) {
    keys.push_back(partOf(key, rank));
  }
  return keys;
}

/// What `action` gives, all of its calls on stores together within the time of `call`.
template <typename Action>
auto inTime(const Call& call, Action action) {
  const OneDeadline deadline(call.deadline);
  return action();
}

}  // namespace

class StoreCollectives::Impl {
 public:
  Impl(StorePtr store, int rank, int world)
      : store_(std::move(store)), rank_(rank), world_(world), cleansUp_(kCleanup.value()) {
    for (int other = 0; other < world; ++other) {
      if (other != rank) {
        others_.push_back(other);
      }
    }
  }

  Store& store() const { return *store_; }
  int rank() const { return rank_; }
  int world() const { return world_; }
  const std::vector<int>& others() const { return others_; }

  /// The beginning of every call: its key serves for no other from now on.
  Call begin(const char* op, std::string_view key, Timeout timeout) UNISONO_EXCLUDES(mutex_);

  void barrier(const Call& call, bool blocking) const;

  /// Waits for all of `keys`; when they do not come, names the ranks that have left nothing.
  void awaitRanks(const Call& call, std::span<const std::string> keys) const;

  /// The value that the one who sends puts at `at`.
  Bytes awaitValue(const Call& call, const std::string& at) const;

  /// The end of every call that succeeded: the last rank to come here deletes what `keys()` names,
  /// if that is wanted.
  template <typename Keys>
  void leave(const Call& call, Keys keys) const;

  /// `key` with a part for each rank.
  std::vector<std::string> parts(std::string_view key) const;

 private:
  bool comes(std::span<const std::string> keys, Deadline deadline) const;
  std::vector<int> missing(std::string_view key) const;
  void findMissing(std::string_view key, std::span<const int> among, std::vector<int>& found) const;
  [[noreturn]] void blame(const Call& call) const;

  const StorePtr store_;
  const int rank_;
  const int world_;
  const bool cleansUp_;
  std::vector<int> others_;
  Mutex mutex_;
  std::set<std::string, std::less<>> used_ UNISONO_GUARDED_BY(mutex_);
};

Call StoreCollectives::Impl::begin(const char* op, std::string_view key, Timeout timeout) {
  const Milliseconds limit = checkedTimeout(timeout.value_or(defaultTimeout(kDefaultTimeout)));
  const MutexLock lock(mutex_);
  if (!used_.emplace(key).second) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = str("Key ", shownKey(key), " has already been used. Every control ",
                                  "collective needs a key of its own, one that failed too"),
                      .hint = "count them, and make the number a part of the key",
                      .op = op,
                      .rank = rank_,
                      .world = world_});
  }
  return {.op = op, .key = std::string(key), .timeout = limit};
}

template <typename Keys>
void StoreCollectives::Impl::leave(const Call& call, Keys keys) const {
  if (!cleansUp_) {
    return;
  }
  const std::string readers = str(call.key, "/readers");
  try {
    inTime(call, [&] {
      if (store_->add(readers, 1) < world_) {
        return;
      }
      for (const std::string& key : keys()) {
        store_->deleteKey(key);
      }
      store_->deleteKey(readers);
    });
  } catch (const DistError& error) {  // the store may be gone: the others need it no more
    UNISONO_LOG(INFO, "control", "the keys of ", call.op, " ", shownKey(call.key),
                " stay in the store: ", error.what());
  }
}

void StoreCollectives::Impl::barrier(const Call& call, bool blocking) const {
  const std::string members = str(call.key, "/num_members");
  const std::string last = str(call.key, "/last_members");
  const std::int64_t arrived = inTime(call, [&] { return store_->add(members, 1); });
  if (arrived > world_) {
    throw UsageError(
        {.reason = Reason::USAGE,
         .what = str("the key ", shownKey(call.key), " has been used in this store ",
                     "before: ", arrived, " have come to the barrier, of ", world_, " ranks"),
         .hint = "use another key, or put a PrefixStore around the store",
         .op = call.op,
         .rank = rank_,
         .world = world_});
  }
  inTime(call, [&] {
    store_->set(partOf(call.key, rank_), "joined");
    if (arrived == world_) {
      store_->set(last, "<val_ignored>");
    }
  });
  if (arrived < world_ && blocking) {
    awaitRanks(call, {&last, 1});
  }
  leave(call, [&] {
    std::vector<std::string> keys = parts(call.key);
    keys.push_back(members);
    keys.push_back(last);
    return keys;
  });
}

bool StoreCollectives::Impl::comes(std::span<const std::string> keys, Deadline deadline) const {
  try {
    store_->wait(keys, deadline.remaining());
    return true;
  } catch (const DistStoreError& error) {
    if (error.reason() != Reason::TIMEOUT) {
      throw;
    }
    return false;
  }
}

void StoreCollectives::Impl::awaitRanks(const Call& call, std::span<const std::string> keys) const {
  if (!comes(keys, call.deadline)) {
    blame(call);
  }
}

Bytes StoreCollectives::Impl::awaitValue(const Call& call, const std::string& at) const {
  if (!comes({&at, 1}, call.deadline)) {
    throw DistStoreError({.reason = Reason::TIMEOUT,
                          .what = str(call.op, " gave up. Wait timeout after ",
                                      call.timeout.count(), "ms, key: ", shownKey(at)),
                          .hint = "has the rank that sends called its half with this key? raise "
                                  "the timeout if it is slow",
                          .op = call.op,
                          .rank = rank_,
                          .world = world_,
                          .elapsed = call.timeout});
  }
  return inTime(call, [&] { return store_->get(at); });
}

void StoreCollectives::Impl::blame(const Call& call) const {
  std::string who;
  std::vector<int> culprits;
  try {
    culprits = missing(call.key);
    std::vector<std::string> names;
    for (const int culprit : culprits) {
      names.push_back(str(culprit));
    }
    who = names.empty() ? "none is missing by now" : str("missing ranks: ", join(names, ", "));
  } catch (const DistError&) {  // what has happened to the call itself is what matters
    who = "the store does not say who is missing";
  }
  throw DistStoreError({.reason = Reason::TIMEOUT,
                        .what = str(call.op, " failed -- ", who, ", wait timeout after ",
                                    call.timeout.count(), "ms, key: ", shownKey(call.key)),
                        .hint = "are these ranks running, and do they call it with this key? raise "
                                "the timeout if they are slow",
                        .op = call.op,
                        .rank = rank_,
                        .world = world_,
                        .culprits = std::move(culprits),
                        .elapsed = call.timeout});
}

std::vector<int> StoreCollectives::Impl::missing(std::string_view key) const {
  const OneDeadline deadline(kRollCall);
  std::vector<int> found;
  findMissing(key, others_, found);
  return found;
}

/// One question clears all of `among`; where somebody is missing, each half is asked about. So few
/// missing ranks of many are found with few questions.
void StoreCollectives::Impl::findMissing(std::string_view key, std::span<const int> among,
                                         std::vector<int>& found) const {
  if (among.empty() || store_->check(partsOf(key, among))) {
    return;
  }
  if (among.size() == 1) {
    found.push_back(among.front());
    return;
  }
  const std::size_t half = among.size() / 2;
  findMissing(key, among.first(half), found);
  findMissing(key, among.subspan(half), found);
}

std::vector<std::string> StoreCollectives::Impl::parts(std::string_view key) const {
  std::vector<int> ranks(static_cast<std::size_t>(world_));
  std::iota(ranks.begin(), ranks.end(), 0);
  return partsOf(key, ranks);
}

StoreCollectives::StoreCollectives(StorePtr store, int rank, int worldSize) {
  UNISONO_CHECK(store != nullptr, "StoreCollectives needs a store, but got none");
  UNISONO_CHECK(worldSize > 0, "StoreCollectives needs at least one rank, but the world size is ",
                worldSize);
  UNISONO_CHECK(rank >= 0 && rank < worldSize, "rank ", rank, " is not one of the ", worldSize,
                " ranks, which are counted from 0");
  impl_ = std::make_unique<Impl>(std::move(store), rank, worldSize);
}

StoreCollectives::~StoreCollectives() = default;

void StoreCollectives::barrier(std::string_view key, Timeout timeout, bool blocking) {
  impl_->barrier(impl_->begin("barrier", key, timeout), blocking);
}

void StoreCollectives::broadcastSend(std::string_view key, BytesView data, Timeout timeout) {
  const Call call = impl_->begin("broadcast_send", key, timeout);
  inTime(call, [&] { impl_->store().set(key, data); });
  impl_->leave(call, [&] { return std::vector{call.key}; });
}

Bytes StoreCollectives::broadcastRecv(std::string_view key, Timeout timeout) {
  const Call call = impl_->begin("broadcast_recv", key, timeout);
  Bytes data = impl_->awaitValue(call, call.key);
  impl_->leave(call, [&] { return std::vector{call.key}; });
  return data;
}

void StoreCollectives::gatherSend(std::string_view key, BytesView data, Timeout timeout) {
  const Call call = impl_->begin("gather_send", key, timeout);
  inTime(call, [&] { impl_->store().set(partOf(key, impl_->rank()), data); });
  impl_->leave(call, [&] { return impl_->parts(key); });
}

std::vector<Bytes> StoreCollectives::gatherRecv(std::string_view key, BytesView data,
                                                Timeout timeout) {
  const Call call = impl_->begin("gather", key, timeout);
  const std::vector<std::string> keys = partsOf(key, impl_->others());
  impl_->awaitRanks(call, keys);
  std::vector<Bytes> all = inTime(call, [&] { return impl_->store().multiGet(keys); });
  all.insert(all.begin() + impl_->rank(), Bytes(data.begin(), data.end()));
  impl_->leave(call, [&] { return impl_->parts(key); });
  return all;
}

Bytes StoreCollectives::scatterSend(std::string_view key, std::span<const Bytes> data,
                                    Timeout timeout) {
  UNISONO_CHECK(data.size() == static_cast<std::size_t>(impl_->world()),
                "scatter_send needs one value for each of the ", impl_->world(), " ranks, but got ",
                data.size());
  const Call call = impl_->begin("scatter_send", key, timeout);
  std::vector<Bytes> theirs(data.begin(), data.end());
  theirs.erase(theirs.begin() + impl_->rank());
  inTime(call, [&] { impl_->store().multiSet(partsOf(key, impl_->others()), theirs); });
  impl_->leave(call, [&] { return impl_->parts(key); });
  return data[static_cast<std::size_t>(impl_->rank())];
}

Bytes StoreCollectives::scatterRecv(std::string_view key, Timeout timeout) {
  const Call call = impl_->begin("scatter_recv", key, timeout);
  Bytes data = impl_->awaitValue(call, partOf(key, impl_->rank()));
  impl_->leave(call, [&] { return impl_->parts(key); });
  return data;
}

std::vector<Bytes> StoreCollectives::allGather(std::string_view key, BytesView data,
                                               Timeout timeout) {
  const Call call = impl_->begin("all_gather", key, timeout);
  const std::vector<std::string> keys = impl_->parts(key);
  inTime(call, [&] { impl_->store().set(partOf(key, impl_->rank()), data); });
  impl_->awaitRanks(call, keys);
  std::vector<Bytes> all = inTime(call, [&] { return impl_->store().multiGet(keys); });
  impl_->leave(call, [&] { return keys; });
  return all;
}

std::int64_t StoreCollectives::allSum(std::string_view key, std::int64_t value, Timeout timeout) {
  const Call call = impl_->begin("all_sum", key, timeout);
  Call meeting = impl_->begin("barrier", str(key, "/barrier"), call.timeout);
  meeting.deadline = call.deadline;
  inTime(call, [&] { impl_->store().add(key, value); });
  impl_->barrier(meeting, true);
  const std::int64_t sum = inTime(call, [&] { return impl_->store().add(key, 0); });
  impl_->leave(call, [&] { return std::vector{call.key}; });
  return sum;
}

}  // namespace unisono
