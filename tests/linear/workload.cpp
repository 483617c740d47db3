#include "linear/workload.hpp"

#include <algorithm>
#include <array>

#include "unisono/base/error.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "linear/model.hpp"

namespace unisono::linear {
namespace {

bool mayHaveTwoKeys(Op op) {
  return op == Op::SET || op == Op::GET || op == Op::CHECK || op == Op::WAIT;
}

/// Whether a call was told that what it waited for was not there. A server that does not answer
/// says nothing.
bool waitedInVain(const Event& event, const DistStoreError& error) {
  return (event.op == Op::GET || event.op == Op::WAIT) &&
         std::string_view(error.what()).find("does not answer") == std::string_view::npos;
}

bool isWriteOnly(Op op) {
  return op == Op::SET || op == Op::APPEND || op == Op::PUSH;
}

}  // namespace

Workload::Workload(WorkloadOptions options) : options_(std::move(options)), rng_(options_.seed) {}

/// Values are short, and every one is written once: a wrong one shows where it came from.
std::string Workload::newValue() {
  return str("<", options_.client, ".", ++values_, ">");
}

std::string Workload::someKey() {
  return str("k", below(options_.keys));
}

std::vector<std::string> Workload::allKeys() const {
  std::vector<std::string> all = {"n0", "n1"};
  for (std::size_t i = 0; i < options_.keys + options_.keys % 2; ++i) {
    all.push_back(str("k", i));
  }
  return all;
}

Event Workload::plan() {
  static constexpr std::array kOps = {Op::SET,    Op::SET,    Op::GET,  Op::GET,   Op::COMPARE_SET,
                                      Op::CHECK,  Op::DELETE, Op::PUSH, Op::POP,   Op::LENGTH,
                                      Op::APPEND, Op::ADD,    Op::WAIT, Op::COUNT, Op::LIST};
  Event event;
  event.client = options_.client;
  event.op = kOps[below(kOps.size())];
  event.keys = {event.op == Op::ADD   ? str("n", below(2))
                : isQueueOp(event.op) ? str("q", below(2))
                                      : someKey()};
  if (isWriteOnly(event.op)) {
    event.values = {newValue()};
  }
  if (isAboutAll(event.op)) {
    event.keys = allKeys();
  }
  if (mayHaveTwoKeys(event.op) && below(4) == 0) {
    // Two neighbours, so that keys stay in groups of few.
    const std::uint64_t pair = 2 * below((options_.keys + 1) / 2);
    event.keys = {str("k", pair), str("k", pair + 1)};
    event.values.resize(event.op == Op::SET ? 2 : 0);
    std::generate(event.values.begin(), event.values.end(), [&] { return newValue(); });
  }
  if (event.op == Op::COMPARE_SET) {
    event.values = {below(3) == 0 ? "" : str("<", options_.client, ".", values_, ">"), newValue()};
  }
  event.number = event.op == Op::ADD ? static_cast<std::int64_t>(1 + below(5)) : 0;
  return event;
}

void Workload::look(Store& store, Event& event) {
  switch (event.op) {
    case Op::CHECK:
      event.result = store.check(event.keys) ? 1 : 0;
      break;
    case Op::WAIT:
      store.wait(event.keys);
      event.result = 1;
      break;
    case Op::COUNT:
      event.result = event.number = store.numKeys();
      break;
    case Op::LIST:
      event.texts = store.listKeys();
      std::sort(event.texts.begin(), event.texts.end());
      break;
    default:
      break;
  }
}

void Workload::perform(Store& store, Event& event) {
  const std::string& key = event.keys.front();
  const auto text = [](const Bytes& bytes) { return std::string(asText(bytes)); };
  switch (event.op) {
    case Op::SET:
      if (event.keys.size() == 1) {
        store.set(key, event.values.front());
      } else {
        std::vector<Bytes> values;
        for (const std::string& value : event.values) {
          values.emplace_back(value.begin(), value.end());
        }
        store.multiSet(event.keys, values);
      }
      break;
    case Op::GET:
      for (const Bytes& value : store.multiGet(event.keys)) {
        event.texts.push_back(text(value));
      }
      break;
    case Op::ADD:
      event.result = store.add(key, event.number);
      break;
    case Op::COMPARE_SET:
      event.texts = {store.compareSet(key, event.values[0], event.values[1])};
      break;
    case Op::DELETE:
      event.result = store.deleteKey(key) ? 1 : 0;
      break;
    case Op::APPEND:
      store.append(key, event.values.front());
      break;
    case Op::PUSH:
      store.queuePush(key, event.values.front());
      break;
    case Op::POP:
      try {
        event.texts = {text(store.queuePop(key, false))};
      } catch (const DistQueueEmptyError&) {
        event.texts.clear();
      }
      break;
    case Op::LENGTH:
      event.result = store.queueLen(key);
      break;
    default:
      look(store, event);
  }
}

void Workload::settle(std::int64_t now) {
  for (const std::size_t i : unsettled_) {
    history_[i].known = true;
    history_[i].end = now;
  }
  unsettled_.clear();
}

bool Workload::oneCall(Store& store) {
  Event event = plan();
  event.start = options_.clock();
  const std::size_t place = history_.size();
  history_.push_back(event);
  try {
    perform(store, event);
    event.end = options_.clock();
    event.known = options_.synchronous || !isWriteOnly(event.op);
    history_[place] = event;
    if (event.known) {
      settle(event.end);
    } else {
      unsettled_.push_back(place);
    }
  } catch (const DistStoreError& error) {
    if (error.reason() != Reason::TIMEOUT) {
      throw;
    }
    if (!waitedInVain(event, error)) {
      unsettled_.clear();  // as little is known of those before
      return true;
    }
    event.op = Op::WAIT;
    event.result = 0;
    event.known = true;
    event.end = options_.clock();
    history_[place] = event;
    settle(event.end);
  } catch (const DistNetworkError&) {
    unsettled_.clear();  // those before may have been lost with the connection
    return false;
  }
  return true;
}

History Workload::take() {
  // Who only looks and is not answered changes nothing and says nothing.
  std::erase_if(history_, [](const Event& event) { return !event.known && isLook(event); });
  unsettled_.clear();
  return std::move(history_);
}

}  // namespace unisono::linear
