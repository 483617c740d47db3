// ReferenceServer: what a store server answers, one whole command at a time.
//
// A ReferenceStore with the wire protocol around it, as naive as that. It knows no limits.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "store/core_harness.hpp"
#include "store/decimal.hpp"
#include "store/reference_store.hpp"
#include "store/tcp/protocol.hpp"

namespace unisono::tcp::test {

/// A request in parts.
struct Command {
  Query query;
  bool answered = false;
  std::vector<std::string> keys = {};
  std::vector<std::string> values = {};
  std::int64_t number = 0;

  std::string bytes() const {
    RequestWriter writer;
    writer.begin(query, answered);
    const Shape& shape = *shapeOf(static_cast<std::uint8_t>(query) | (answered ? kAnswered : 0));
    std::size_t value = 0;
    for (const Field field : shape.fields) {
      if (field == Field::U32) {
        writer.u32(static_cast<std::uint32_t>(number));
      } else if (field == Field::I64) {
        writer.i64(number);
      } else if (field == Field::KEY) {
        writer.blob(keys.front());
      } else if (field == Field::VALUE) {
        writer.blob(values[value++]);
      } else if (field == Field::KEYS || field == Field::PAIRS) {
        writer.i64(static_cast<std::int64_t>(keys.size()));
        for (std::size_t i = 0; i < keys.size(); ++i) {
          writer.blob(keys[i]);
          if (field == Field::PAIRS) {
            writer.blob(values[i]);
          }
        }
      }
    }
    return writer.bytes();
  }
};

class ReferenceServer {
 public:
  using Id = std::uint64_t;
  using ReferenceStore = ::unisono::test::ReferenceStore;

  void open(Id id) { clients_[id]; }

  void close(Id id) {
    const Client client = clients_.at(id);
    clients_.erase(id);
    store_.cancelWait(id);
    if (client.claim) {
      store_.passOn(*client.claim);
    }
    answerEnded();
  }

  /// False when the connection is closed over it.
  bool execute(Id id, const Command& command, TimePoint now) {
    now_ = now;
    Client& client = clients_.at(id);
    if (client.claim) {
      const std::string name = *std::exchange(client.claim, std::nullopt);
      if (command.query != Query::QUEUE_POP || command.keys.front() != name) {
        store_.passOn(name);
      }
    }
    const bool open = answer(id, client, command);
    answerEnded();
    if (!open) {
      close(id);
    }
    return open;
  }

  /// Those who were woken by a push and did not pop for so long do not any more.
  void passClaims(TimePoint now) {
    now_ = now;
    for (auto& [id, client] : clients_) {
      if (client.claim && now - client.claimedAt > Milliseconds(100)) {
        store_.passOn(*std::exchange(client.claim, std::nullopt));
      }
    }
    answerEnded();
  }

  /// What `id` has been told since the last call.
  std::string take(Id id) { return std::exchange(clients_.at(id).out, {}); }
  const ReferenceStore& store() const { return store_; }

 private:
  struct Client {
    std::string out;
    std::vector<std::string> reads;  // what the outstanding wait is to read
    std::optional<std::string> claim;
    TimePoint claimedAt;
  };

  bool answer(Id id, Client& client, const Command& command) {
    switch (command.query) {
      case Query::SET:
        store_.set(command.keys[0], command.values[0]);
        return done(client, command);
      case Query::APPEND:
        store_.append(command.keys[0], command.values[0]);
        return done(client, command);
      case Query::QUEUE_PUSH:
        store_.push(command.keys[0], command.values[0]);
        return done(client, command);
      case Query::MULTI_SET:
        for (std::size_t i = 0; i < command.keys.size(); ++i) {
          store_.set(command.keys[i], command.values[i]);
        }
        return done(client, command);
      case Query::WAIT:
      case Query::GET:
      case Query::MULTI_GET:
        return read(id, client, command);
      case Query::QUEUE_POP:
        return pop(id, client, command);
      case Query::ADD:
      case Query::BARRIER:
        return count(id, client, command);
      case Query::COMPARE_SET:
        return compareSet(client, command);
      default:
        return answerPlain(id, client, command);
    }
  }

  bool answerPlain(Id id, Client& client, const Command& command) {
    switch (command.query) {
      case Query::CHECK:
        client.out += store_.allPresent(command.keys) ? kZero : kOne;
        break;
      case Query::NUM_KEYS:
        client.out += i64(static_cast<std::int64_t>(store_.values().size()));
        break;
      case Query::DELETE_KEY:
        client.out += i64(store_.remove(command.keys[0]) ? 1 : 0);
        break;
      case Query::DELETE_PREFIX:
        client.out += kZero + i64(store_.removePrefix(command.keys[0]));
        break;
      case Query::CANCEL_WAIT:
        store_.cancelWait(id);
        client.out += kOne;
        break;
      case Query::PING:
        client.out += i64(command.number).substr(0, 4);
        break;
      default:  // QUEUE_LEN
        client.out += i64(static_cast<std::int64_t>(store_.queueLength(command.keys[0])));
    }
    return true;
  }

  static bool done(Client& client, const Command& command) {
    client.out += command.answered ? kZero : "";
    return true;
  }

  bool compareSet(Client& client, const Command& command) {
    const auto compared = store_.compareSet(command.keys[0], command.values[0], command.values[1]);
    if (command.answered) {
      client.out += kZero + static_cast<char>(compared.outcome);
    }
    client.out += blob(compared.value);
    return true;
  }

  bool read(Id id, Client& client, const Command& command) {
    const bool reads = command.query != Query::WAIT;
    if (reads && !command.answered) {
      for (const std::string& key : command.keys) {
        client.out += blob(store_.get(key).value_or(""));
      }
      return true;
    }
    const bool polite = !command.answered && command.keys.size() == 1;
    client.reads = reads ? command.keys : std::vector<std::string>();
    if (store_.wait(id, command.keys,
                    reads    ? ReferenceStore::Kind::VALUES
                    : polite ? ReferenceStore::Kind::POLITE
                             : ReferenceStore::Kind::PRESENCE)) {
      finish(client, std::nullopt);
    }
    return true;
  }

  bool pop(Id id, Client& client, const Command& command) {
    const std::string& name = command.keys[0];
    if (command.answered) {
      client.reads.clear();
      if (const auto element = store_.popOrWait(id, name)) {
        finish(client, element);
      }
      return true;
    }
    client.out += i64(static_cast<std::int64_t>(store_.queueLength(name)));
    if (const auto element = store_.pop(name)) {
      client.out += blob(*element);
    }
    return true;
  }

  bool count(Id id, Client& client, const Command& command) {
    const std::string& key = command.keys[0];
    const bool barrier = command.query == Query::BARRIER;
    const std::int64_t delta = barrier ? 1 : command.number;
    const Result<std::int64_t> sum = addDecimal(store_.get(key).value_or(""), delta);
    if (barrier) {
      client.reads.clear();
      if (store_.arrive(id, key, command.number) == true) {
        client.out += kZero;
      }
    } else if (const auto value = store_.add(key, delta)) {
      client.out += (command.answered ? kZero : "") + i64(*value);
    }
    if (!sum.isOk() && command.answered) {
      client.out += '\2' + blob("USAGE") + blob(sum.failure().text());
    }
    return sum.isOk() || command.answered;
  }

  void finish(Client& client, const std::optional<std::string>& element) {
    client.out += kZero;
    if (element) {
      client.out += blob(*element);
    }
    for (const std::string& key : client.reads) {
      client.out += blob(store_.get(key).value());
    }
  }

  void answerEnded() {
    for (const ReferenceStore::Ended& ended : store_.takeEnded()) {
      Client& client = clients_.at(ended.id);
      finish(client, ended.element);
      if (ended.queue) {
        client.claim = ended.queue;
        client.claimedAt = now_;
      }
    }
  }

  ReferenceStore store_;
  std::map<Id, Client> clients_;
  TimePoint now_{};
};

}  // namespace unisono::tcp::test
