// What a KvTable does a slice at a time: waits for very many names, and deleting them.
//
// A wait in slices is linked into one name after the other, and each link is kept up to date from
// then on. So when the last has been made, the number of missing names is right, however much has
// changed meanwhile. When it ends, its links are taken away likewise; until then they count as
// contents, and nobody looks at them.

#include <algorithm>
#include <utility>

#include "store/kv_parts.hpp"

namespace unisono {

/// The room for all of its names is taken at once, as if nobody else knew them: a wait that has
/// begun is not refused in the middle.
Status KvTable::beginWait(WaitId id, std::span<const std::string_view> keys, WaitFor what) {
  cancelWait(id);
  auto unlinked = std::make_unique<Wait::Unlinked>();
  unlinked->ends.reserve(keys.size());
  for (const std::string_view key : keys) {
    unlinked->text += key;
    unlinked->ends.push_back(unlinked->text.size());
  }
  const Growth most{.bytes = unlinked->text.size() + keys.size() * (kWaitOverhead + kEntryOverhead),
                    .keys = keys.size()};
  if (Status status = admit(most, Room::WAITS); !status.isOk()) {
    return status;
  }
  auto wait = std::make_unique<Wait>();
  wait->id = id;
  wait->what = what;
  wait->inSlices = true;
  wait->links.reserve(keys.size());
  unlinked->listed = linking_.insert(linking_.end(), wait.get());
  wait->unlinked = std::move(unlinked);
  try {
    waits_.emplace(id, nullptr).first->second = std::move(wait);
  } catch (...) {
    linking_.pop_back();
    throw;
  }
  reserved_.bytes += most.bytes;
  reserved_.keys += most.keys;
  return Status::ok();
}

/// Links `wait` into the next of its names. Changes nothing when there is no memory for it.
void KvTable::linkNext(Wait& wait) {
  Wait::Unlinked& unlinked = *wait.unlinked;
  const std::string_view name = unlinked.name();
  Node& node = nodeAt(placeOf(name));
  try {
    link(wait, node, node.second.wakeable().presence);
  } catch (...) {
    dropIfEmpty(node);
    throw;
  }
  wait.missing += wait.satisfiedBy(node.second.hasValue(), node.second.present()) ? 0 : 1;
  reserved_.bytes -= name.size() + kWaitOverhead + kEntryOverhead;
  --reserved_.keys;
  unlinked.at = unlinked.ends[unlinked.next++];
}

void KvTable::stopLinking(Wait& wait) noexcept {
  const Wait::Unlinked& unlinked = *wait.unlinked;
  const std::size_t names = unlinked.ends.size() - unlinked.next;
  reserved_.bytes -= unlinked.text.size() - unlinked.at + names * (kWaitOverhead + kEntryOverhead);
  reserved_.keys -= names;
  linking_.erase(unlinked.listed);
  wait.unlinked.reset();
}

/// Of several waits each has its turn.
std::size_t KvTable::linkSome(std::size_t most) {
  Wait& wait = *linking_.front();
  linking_.splice(linking_.end(), linking_, linking_.begin());
  std::size_t count = 0;
  for (; count < most && !wait.unlinked->empty(); ++count) {
    linkNext(wait);
  }
  if (!wait.unlinked->empty()) {
    return count;
  }
  if (wait.missing == 0) {
    end(wait, std::nullopt, std::nullopt);
  } else {
    stopLinking(wait);
  }
  return count;
}

std::size_t KvTable::unlinkSome(std::size_t most) {
  const std::size_t count = std::min(most, over_->links.size());
  unlink(*over_, count);
  if (over_->links.empty()) {
    over_ = std::move(over_->next);
  }
  return count;
}

std::int64_t KvTable::removePrefix(std::string_view prefix) {
  Removal removal{
      .id = 0, .prefix = std::string(prefix), .latest = births_, .place = std::string(prefix)};
  removeSome(removal, valued_.size() + 1);
  return removal.count;
}

std::optional<std::int64_t> KvTable::beginRemoval(WaitId id, std::string_view prefix) {
  removals_.push_back(
      {.id = id, .prefix = std::string(prefix), .latest = births_, .place = std::string(prefix)});
  const auto mine = std::prev(removals_.end());
  removeSome(*mine, limits_.slice);
  if (!mine->done) {
    return std::nullopt;
  }
  const std::int64_t count = mine->count;
  removals_.erase(mine);
  return count;
}

/// Goes on where it was, in the order of the keys: what is set behind that place is not looked at,
/// and what is set before it is too young. So it ends, however much others set.
std::size_t KvTable::removeSome(Removal& removal, std::size_t most) {
  auto next = valued_.lower_bound(removal.place);
  const auto atEnd = [&] { return next == valued_.end() || !next->starts_with(removal.prefix); };
  std::size_t count = 0;
  for (; count < most && !atEnd(); ++count) {
    Node& node = *entries_.find(*next);
    if (node.second.born > removal.latest) {
      ++next;
      continue;
    }
    next = valued_.erase(next);
    dropValue(node);
    ++removal.count;
  }
  removal.done = atEnd();
  if (!removal.done) {
    removal.place = *next;
  }
  return count;
}

std::size_t KvTable::removeSome(std::size_t most) {
  Removal& removal = removals_.front();
  const std::size_t count = removeSome(removal, most);
  if (removal.done) {
    wakes_.push_back({removal.id, std::nullopt, std::nullopt, removal.count});
    removals_.pop_front();
  } else {
    removals_.splice(removals_.end(), removals_, removals_.begin());
  }
  return count;
}

std::size_t KvTable::work(std::size_t most) {
  std::size_t count = 0;
  while (count < most && anyWork()) {
    const std::size_t part = std::min(most - count, limits_.slice);
    turn_ = (turn_ + 1) % 3;
    if (turn_ == 0 && over_) {
      count += unlinkSome(part);
    } else if (turn_ == 1 && !linking_.empty()) {
      count += linkSome(part);
    } else if (turn_ == 2 && !removals_.empty()) {
      count += removeSome(part);
    }
  }
  return count;
}

}  // namespace unisono
