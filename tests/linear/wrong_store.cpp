#include "linear/wrong_store.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"

namespace unisono::linear {

bool WrongStore::strikes(Fault fault) {
  return fault_ == fault && ++calls_ % 3 == 0;
}

void WrongStore::doLater(std::function<void()> action) {
  late_ = std::move(action);
  callsUntilLate_ = 8;
}

void WrongStore::doLate() {
  if (late_ && --callsUntilLate_ == 0) {
    std::exchange(late_, {})();
  }
}

void WrongStore::remember(std::string_view key) {
  if (right_->check({std::string(key)})) {
    stale_[std::string(key)] = right_->get(key);
  }
}

void WrongStore::set(std::string_view key, BytesView value) {
  doLate();
  remember(key);
  if (strikes(Fault::SET_LOST)) {
    return;
  }
  if (strikes(Fault::SET_LATE)) {
    doLater([this, name = std::string(key), text = Bytes(value.begin(), value.end())] {
      right_->set(name, text);
    });
    return;
  }
  right_->set(key, value);
}

Bytes WrongStore::get(std::string_view key) {
  const std::string name(key);
  return multiGet({&name, 1}).front();
}

std::int64_t WrongStore::add(std::string_view key, std::int64_t delta) {
  doLate();
  if (strikes(Fault::ADD_LOST)) {
    return right_->add(key, 0) + delta;
  }
  if (strikes(Fault::ADD_TWICE)) {
    right_->add(key, delta);
  }
  const std::int64_t sum = right_->add(key, delta);
  return strikes(Fault::ADD_TELLS_OLD) ? sum - delta : sum;
}

Bytes WrongStore::compareSet(std::string_view key, BytesView expected, BytesView desired) {
  doLate();
  remember(key);
  const Bytes before = right_->check({std::string(key)}) ? right_->get(key) : Bytes();
  if (strikes(Fault::CAS_ALWAYS_SETS)) {
    right_->set(key, desired);
    return {desired.begin(), desired.end()};
  }
  const bool struck = strikes(Fault::CAS_NEVER_SETS);
  Bytes told = right_->compareSet(key, expected, desired);
  if (struck && right_->check({std::string(key)})) {
    before.empty() ? static_cast<void>(right_->deleteKey(key)) : right_->set(key, before);
  }
  return strikes(Fault::CAS_TELLS_EXPECTED) ? Bytes(expected.begin(), expected.end()) : told;
}

bool WrongStore::check(std::span<const std::string> keys) {
  doLate();
  if (strikes(Fault::CHECK_ALWAYS_TRUE)) {
    return true;
  }
  const bool one = keys.size() > 1 && strikes(Fault::CHECK_OF_ONE_KEY);
  return right_->check(one ? keys.first(1) : keys);
}

bool WrongStore::deleteKey(std::string_view key) {
  doLate();
  if (strikes(Fault::DELETE_KEEPS)) {
    return right_->check({std::string(key)});
  }
  return right_->deleteKey(key) || strikes(Fault::DELETE_TELLS_TRUE);
}

void WrongStore::append(std::string_view key, BytesView value) {
  doLate();
  if (strikes(Fault::APPEND_LOST)) {
    return;
  }
  strikes(Fault::APPEND_OVERWRITES) ? right_->set(key, value) : right_->append(key, value);
}

std::vector<Bytes> WrongStore::multiGet(std::span<const std::string> keys) {
  doLate();
  std::vector<Bytes> values = right_->multiGet(keys);
  const auto old = stale_.find(keys.back());
  if (old != stale_.end() &&
      (strikes(Fault::GET_STALE) || (keys.size() > 1 && strikes(Fault::MULTI_GET_MIXES)))) {
    values.back() = old->second;
  }
  if (strikes(Fault::GET_OF_ANOTHER_KEY) && !stale_.empty()) {
    values.front() = stale_.rbegin()->second;
  }
  return values;
}

void WrongStore::multiSet(std::span<const std::string> keys, std::span<const Bytes> values) {
  doLate();
  remember(keys.back());
  if (strikes(Fault::MULTI_SET_HALF)) {
    right_->set(keys.front(), values.front());
    return;
  }
  if (strikes(Fault::MULTI_SET_IN_STEPS)) {
    right_->set(keys.front(), values.front());
    doLater([this, key = keys.back(), value = values.back()] { right_->set(key, value); });
    return;
  }
  right_->multiSet(keys, values);
}

void WrongStore::queuePush(std::string_view key, BytesView value) {
  if (strikes(Fault::PUSH_LOST)) {
    return;
  }
  if (!strikes(Fault::PUSH_IN_FRONT)) {
    right_->queuePush(key, value);
    return;
  }
  std::vector<Bytes> others;
  while (right_->queueLen(key) > 0) {
    others.push_back(right_->queuePop(key, false));
  }
  right_->queuePush(key, value);
  for (const Bytes& other : others) {
    right_->queuePush(key, other);
  }
}

Bytes WrongStore::queuePop(std::string_view key, bool block) {
  if (right_->queueLen(key) > 1 && strikes(Fault::POP_SKIPS)) {
    right_->queuePop(key, block);
  }
  Bytes element = right_->queuePop(key, block);
  if (strikes(Fault::POP_KEEPS)) {
    right_->queuePush(key, element);
  }
  return element;
}

std::int64_t WrongStore::queueLen(std::string_view key) {
  return right_->queueLen(key) + (strikes(Fault::LENGTH_OFF_BY_ONE) ? 1 : 0);
}

void WrongStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  doLate();
  if (strikes(Fault::WAIT_ENDS_EARLY)) {
    return;
  }
  if (strikes(Fault::WAIT_MISSES)) {
    right_->wait({"never set"}, timeout);
  }
  const bool one = keys.size() > 1 && strikes(Fault::WAIT_FOR_ONE_KEY);
  right_->wait(one ? keys.first(1) : keys, timeout);
}

std::int64_t WrongStore::numKeys() {
  doLate();
  const std::int64_t before = std::exchange(count_, right_->numKeys());
  return strikes(Fault::COUNT_LATE) ? before : count_ + (strikes(Fault::COUNT_OFF_BY_ONE) ? 1 : 0);
}

std::vector<std::string> WrongStore::listKeys() {
  doLate();
  std::vector<std::string> keys = right_->listKeys();
  if (!keys.empty() && strikes(Fault::LIST_WITHOUT_THE_LAST)) {
    keys.pop_back();
  }
  if (strikes(Fault::LIST_WITH_DELETED)) {
    for (const auto& [key, value] : stale_) {
      keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  }
  return keys;
}

}  // namespace unisono::linear
