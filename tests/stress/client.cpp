#include "stress/client.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "unisono/base/error.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "support/bounds.hpp"

namespace unisono::stress {
namespace {

using std::chrono::milliseconds;

// What the answer to a single request has, however short the timeout (docs/adr/0006).
constexpr milliseconds kAnswerTime(500);

/// A promise was broken; the text says which.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The store is lost, as it may be once the server was killed.
struct StoreLost {};

template <typename... Parts>
void require(bool good, const Parts&... parts) {
  if (!good) {
    throw Violation(str(parts...));
  }
}

/// "3:17": the 17th of something that client 3 wrote.
struct Tag {
  int client = 0;
  std::int64_t number = 0;
};

std::string tagText(int client, std::int64_t number) {
  return str(client, ":", number);
}

std::optional<Tag> readTag(std::string_view text) {
  Tag tag;
  const char* end = text.data() + text.size();
  const auto [colon, badClient] = std::from_chars(text.data(), end, tag.client);
  if (badClient != std::errc() || colon == end || *colon != ':') {
    return std::nullopt;
  }
  const auto [rest, badNumber] = std::from_chars(colon + 1, end, tag.number);
  return badNumber == std::errc() && rest == end ? std::optional(tag) : std::nullopt;
}

class Client {
 public:
  Client(Board& board, const ClientSettings& settings)
      : board_(board),
        settings_(settings),
        notes_(board.clients[static_cast<std::size_t>(settings.number)]),
        random_(settings.seed) {}

  void run() {
    if (!connect()) {
      return;
    }
    try {
      while (!board_.end.load()) {
        oneCall();
      }
    } catch (const StoreLost&) {
      checkThatItStaysLost();
    }
  }

 private:
  enum class Outcome : std::uint8_t { ANSWERED, TIMED_OUT };
  /// What a timeout bounds: waiting for something, or for the answer to a request.
  enum class Kind : std::uint8_t { WAIT, REQUEST };

  /// After the first STORE_LOST every call must say the same, at once.
  void checkThatItStaysLost() {
    for (int i = 0; i < 3; ++i) {
      const std::int64_t start = nowUs();
      const std::int64_t stops = notes_.stops.load();
      try {
        store_->add("after", 1);
        throw Violation("a call on a lost store was answered");
      } catch (const DistNetworkError& error) {
        require(error.reason() == Reason::STORE_LOST, "a lost store said: ", error.what());
      }
      const std::int64_t took = nowUs() - start;
      require(took < 500'000 || stops != notes_.stops.load(), "a lost store took ", took,
              " us to say so");
    }
  }

  std::uint64_t below(std::uint64_t limit) { return random_.next() % limit; }
  std::string own(std::string_view what) const { return str(what, "/", settings_.number); }

  /// False when there is no server any more.
  bool connect() {
    // Less than the end of the round is waited for: the server may be gone by now.
    const TCPStoreOptions options{.port = settings_.port, .timeout = std::chrono::seconds(5)};
    try {
      store_ = std::make_unique<TCPStore>("127.0.0.1", options);
    } catch (const DistNetworkError& error) {
      require(board_.serverKilledAtUs.load() != 0, "no connection: ", error.what());
    }
    return store_ != nullptr;
  }

  /// Runs one call with `timeout`, and checks how it ends and when.
  Outcome call(const char* name, milliseconds timeout, const std::function<void()>& body,
               Kind kind = Kind::REQUEST) {
    std::strncpy(notes_.call.data(), name, notes_.call.size() - 1);
    store_->setTimeout(timeout);
    ++notes_.calls;
    const std::int64_t stops = notes_.stops.load();
    const std::int64_t start = nowUs();
    Outcome outcome = Outcome::ANSWERED;
    try {
      body();
      ++notes_.answers;
    } catch (const DistQueueEmptyError&) {
      ++notes_.answers;
    } catch (const DistStoreError& error) {
      require(error.reason() == Reason::TIMEOUT, name, " failed: ", error.what());
      ++notes_.timeouts;
      outcome = Outcome::TIMED_OUT;
    } catch (const DistNetworkError& error) {
      noteLoss(name, error);
    }
    if (stops % 2 == 0 && notes_.stops.load() == stops) {  // else it was stopped itself meanwhile
      checkLateness(name, timeout, nowUs() - start, outcome, kind);
    }
    return outcome;
  }

  [[noreturn]] void noteLoss(const char* name, const DistNetworkError& error) {
    const std::int64_t killed = board_.serverKilledAtUs.load();
    require(killed != 0, name, " lost a store that lives: ", error.what());
    require(error.reason() == Reason::STORE_LOST, name, " failed: ", error.what());
    ++notes_.losses;
    if (notes_.stops.load() == 0) {  // one that was stopped could not notice
      notes_.detectUs.store(nowUs() - killed);
    }
    throw StoreLost();
  }

  void checkLateness(const char* name, milliseconds timeout, std::int64_t took, Outcome outcome,
                     Kind kind) {
    const std::int64_t limit = timeout.count() * 1000;
    const bool early = outcome == Outcome::TIMED_OUT && took < limit;
    require(!early, name, " gave up after ", took, " us of ", limit);
    const milliseconds due = kind == Kind::WAIT ? timeout : std::max(timeout, kAnswerTime);
    notes_.worstLateUs.store(std::max(notes_.worstLateUs.load(), took - due.count() * 1000));
    const milliseconds latest =
        settings_.judge ? test::promisedEnd(due) : test::latestEnd(due) + settings_.slack;
    require(took <= latest.count() * 1000, name, " with a timeout of ", timeout.count(),
            " ms took ", took / 1000, " ms");
  }

  milliseconds someTimeout() { return milliseconds(20 + below(300)); }

  void oneCall() {
    static constexpr std::array<void (Client::*)(), 12> kCalls = {
        &Client::addOwn,  &Client::addShared, &Client::setOwn,  &Client::getOwn,
        &Client::swapOwn, &Client::swapAny,   &Client::push,    &Client::push,
        &Client::pop,     &Client::tryPop,    &Client::waitFor, &Client::meet};
    (this->*kCalls[below(kCalls.size())])();
  }

  void addOwn() {
    std::int64_t sum = 0;
    const Outcome outcome =
        call("add own", someTimeout(), [&] { sum = store_->add(own("count"), 1); });
    ++ownAdds_;
    if (outcome == Outcome::ANSWERED) {
      require(sum > ownCount_, "own counter went from ", ownCount_, " to ", sum);
      require(sum <= ownAdds_, "own counter is ", sum, " after ", ownAdds_, " additions");
      ownCount_ = sum;
    }
  }

  void addShared() {
    std::int64_t sum = 0;
    ++notes_.addsTried;
    const Outcome outcome =
        call("add shared", someTimeout(), [&] { sum = store_->add("shared", 1); });
    if (outcome == Outcome::ANSWERED) {
      ++notes_.addsDone;
      require(sum > shared_, "shared counter went from ", shared_, " to ", sum);
      std::int64_t tried = 0;
      for (const ClientNotes& client : board_.clients) {
        tried += client.addsTried.load();
      }
      require(sum <= tried, "shared counter is ", sum, " after ", tried, " additions");
      shared_ = sum;
    }
  }

  void setOwn() {
    const std::int64_t number = ++notes_.valuesTried;
    const Outcome outcome = call("set own", someTimeout(), [&] {
      store_->set(own("value"), tagText(settings_.number, number));
    });
    ownValue_ = outcome == Outcome::ANSWERED ? number : ownValue_;
  }

  /// A set that returned is seen by every later call of the same client; one that timed out may
  /// have its effect at any time.
  void getOwn() {
    std::string text;
    const Outcome outcome = call(
        "get own", someTimeout(), [&] { text = store_->getString(own("value")); }, Kind::WAIT);
    if (outcome == Outcome::ANSWERED) {
      const std::optional<Tag> tag = readTag(text);
      require(tag && tag->client == settings_.number, "own value is ", text);
      require(tag->number >= ownValue_ && tag->number <= notes_.valuesTried.load(),
              "own value is number ", tag->number, " after ", ownValue_, " was set");
      ownValue_ = tag->number;
    }
  }

  void swapOwn() {
    const std::string next = tagText(settings_.number, ++swaps_);
    std::string now;
    const Outcome outcome = call("compare_set own", someTimeout(),
                                 [&] { now = store_->compareSet(own("swap"), swapped_, next); });
    if (outcome == Outcome::TIMED_OUT) {
      return;  // whether it was done shows the next time
    }
    if (now != next) {
      const std::optional<Tag> tag = readTag(now);
      const std::optional<Tag> before = readTag(swapped_);
      require(tag && tag->client == settings_.number && tag->number < swaps_, "own swap is ", now);
      require(!before || tag->number >= before->number, "own swap went back from ", swapped_,
              " to ", now);
    }
    swapped_ = now;
  }

  /// One key that all swap: whatever stands there, somebody wrote.
  void swapAny() {
    const std::string next = tagText(settings_.number, ++notes_.swapsTried);
    std::string now;
    const Outcome outcome = call("compare_set any", someTimeout(),
                                 [&] { now = store_->compareSet("any", anySwapped_, next); });
    if (outcome == Outcome::ANSWERED) {
      const std::optional<Tag> tag = readTag(now);
      require(tag && tag->client >= 0 && tag->client < settings_.clients, "swapped value is ", now);
      const auto& writer = board_.clients[static_cast<std::size_t>(tag->client)];
      require(tag->number <= writer.swapsTried.load(), "nobody wrote ", now);
      anySwapped_ = now;
    }
  }

  void push() {
    const std::int64_t number = notes_.pushesTried.load() + 1;
    if (number >= kMostElements) {
      return;
    }
    notes_.pushesTried.store(number);
    call("push", someTimeout(),
         [&] { store_->queuePush("queue", tagText(settings_.number, number)); });
  }

  void pop() { popWith(true, milliseconds(5 + below(60))); }
  void tryPop() { popWith(false, someTimeout()); }

  void popWith(bool block, milliseconds timeout) {
    std::optional<std::string> text;
    call(
        block ? "pop" : "try pop", timeout,
        [&] { text = std::string(asText(store_->queuePop("queue", block))); },
        block ? Kind::WAIT : Kind::REQUEST);
    if (!text) {
      return;
    }
    const std::optional<Tag> tag = readTag(*text);
    require(tag && tag->client >= 0 && tag->client < settings_.clients, "popped ", *text);
    ClientNotes& writer = board_.clients[static_cast<std::size_t>(tag->client)];
    require(tag->number >= 1 && tag->number <= writer.pushesTried.load(), "nobody pushed ", *text);
    require(!writer.popped[static_cast<std::size_t>(tag->number)].exchange(true),
            "popped twice: ", *text);
    std::int64_t& last = lastPopped_[static_cast<std::size_t>(tag->client)];
    require(tag->number > last, "popped ", *text, " after number ", last, " of the same client");
    last = tag->number;
  }

  void waitFor() {
    const milliseconds timeout(5 + below(40));
    const Outcome outcome = call(
        "wait", timeout, [&] { store_->wait({"never"}); }, Kind::WAIT);
    require(outcome == Outcome::TIMED_OUT, "a key that nobody sets was there");
  }

  void meet() {
    if (barrier_ >= kMostBarriers) {
      return;
    }
    std::atomic<int>& arrivals = board_.arrivals[static_cast<std::size_t>(barrier_)];
    ++arrivals;
    const Outcome outcome = call(
        "barrier", milliseconds(10 + below(100)),
        [&] { store_->barrier(str("barrier/", barrier_), settings_.clients); }, Kind::WAIT);
    ++barrier_;
    if (outcome == Outcome::ANSWERED) {
      require(arrivals.load() >= settings_.clients, "a barrier opened for ", arrivals.load(),
              " of ", settings_.clients);
    }
  }

  Board& board_;
  const ClientSettings settings_;
  ClientNotes& notes_;
  SeededRng random_;
  std::unique_ptr<TCPStore> store_;
  std::int64_t ownAdds_ = 0;
  std::int64_t ownCount_ = 0;
  std::int64_t ownValue_ = 0;
  std::int64_t shared_ = 0;
  std::int64_t swaps_ = 0;
  int barrier_ = 0;
  std::string swapped_;
  std::string anySwapped_;
  std::array<std::int64_t, kMostClients> lastPopped_{};
};

}  // namespace

int runClient(Board& board, const ClientSettings& settings) {
  ClientNotes& notes = board.clients[static_cast<std::size_t>(settings.number)];
  Client client(board, settings);
  try {
    client.run();
  } catch (const std::exception& error) {
    std::strncpy(notes.violation.data(), error.what(), notes.violation.size() - 1);
  }
  return 0;
}

}  // namespace unisono::stress
