// Several clients at once send random requests to the server core, in random pieces and random
// order; every answer is compared with ReferenceServer's.
#include <deque>
#include <gmock/gmock.h>
#include <random>

#include "base/str.hpp"
#include "store/core_harness.hpp"
#include "store/reference_server.hpp"

namespace unisono::tcp {
namespace {

using test::Command;
using test::CoreHarness;
using test::ReferenceServer;

constexpr int kClients = 6;
constexpr int kNames = 5;
constexpr int kSteps = 5000;

class Conversation {
 public:
  explicit Conversation(std::uint32_t seed) : random_(seed) {
    for (int i = 0; i < kClients; ++i) {
      join();
    }
  }

  void step() {
    const std::size_t who = at(clients_.size());
    if (below(100) == 0) {
      leave(who);
      return;
    }
    if (below(20) == 0) {
      pass();
      return;
    }
    Client& client = clients_[who];
    while (client.unsent.size() < 40) {
      const Command command = randomCommand();
      client.unsent += command.bytes();
      client.commands.push_back({command, command.bytes().size()});
    }
    deliver(who, below(3) == 0 ? 1 : 1 + at(client.unsent.size()));
  }

  void compare() {
    for (const Client& client : clients_) {
      ASSERT_TRUE(server_.isOpen(client.id)) << server_.why(client.id);
      ASSERT_EQ(server_.take(client.id), reference_.take(client.id));
    }
    ASSERT_EQ(server_.core.table().size(), reference_.store().values().size());
    ASSERT_EQ(server_.core.table().waitCount(), reference_.store().waitCount());
    ASSERT_EQ(server_.core.connectionCount(), clients_.size());
  }

  void allLeave() {
    while (!clients_.empty()) {
      server_.disconnect(clients_.back().id);
      clients_.pop_back();
    }
    EXPECT_EQ(server_.core.connectionCount(), 0U);
    EXPECT_EQ(server_.core.unsentBytes(), 0U);
    EXPECT_EQ(server_.core.partialBytes(), 0U);
    EXPECT_EQ(server_.core.table().waitCount(), 0U);
  }

 private:
  struct Client {
    ConnectionId id;
    std::string unsent;
    struct Sent {
      Command command;
      std::size_t left;  // bytes of it that have not been delivered
    };
    std::deque<Sent> commands;
  };

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  std::size_t at(std::size_t size) {
    return static_cast<std::size_t>(below(static_cast<int>(size)));
  }

  void join() {
    clients_.push_back({server_.connect(), "", {}});
    reference_.open(clients_.back().id);
  }
  void leave(std::size_t who) {
    server_.disconnect(clients_[who].id);
    reference_.close(clients_[who].id);
    replace(who);
  }
  void replace(std::size_t who) {
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(who));
    join();
  }
  void pass() {
    const Milliseconds time(below(2) == 0 ? 40 : 100);
    server_.pass(time);
    reference_.passClaims(server_.now);
  }

  void deliver(std::size_t who, std::size_t count) {
    Client& client = clients_[who];
    server_.send(client.id, client.unsent.substr(0, count));
    client.unsent.erase(0, count);
    while (count > 0) {
      Client::Sent& first = client.commands.front();
      const std::size_t taken = std::min(first.left, count);
      first.left -= taken;
      count -= taken;
      if (first.left > 0) {
        continue;
      }
      const Command command = std::move(first.command);
      client.commands.pop_front();
      if (!reference_.execute(client.id, command, server_.now)) {
        ASSERT_FALSE(server_.isOpen(client.id));
        replace(who);
        return;
      }
    }
  }

  std::string name() { return str("/", below(kNames)); }
  std::string value() {
    constexpr const char* kValues[] = {"", "1", "-7x", "text", "a longer value than fits inline"};
    return kValues[below(5)];
  }
  std::vector<std::string> names() {
    std::vector<std::string> some(at(4));
    std::generate(some.begin(), some.end(), [this] { return name(); });
    return some;
  }

  Command randomCommand() {
    static constexpr Query kQueries[] = {
        Query::SET,        Query::SET,        Query::COMPARE_SET,  Query::GET,
        Query::ADD,        Query::CHECK,      Query::WAIT,         Query::WAIT,
        Query::NUM_KEYS,   Query::DELETE_KEY, Query::DELETE_KEY,   Query::APPEND,
        Query::MULTI_GET,  Query::MULTI_SET,  Query::CANCEL_WAIT,  Query::PING,
        Query::QUEUE_PUSH, Query::QUEUE_PUSH, Query::QUEUE_POP,    Query::QUEUE_POP,
        Query::QUEUE_LEN,  Query::BARRIER,    Query::DELETE_PREFIX};
    Command command{.query = kQueries[at(std::size(kQueries))]};
    const Shape& shape = *std::find_if(kShapes.begin(), kShapes.end(), [&](const Shape& known) {
      return known.query == command.query;
    });
    command.answered = !shape.stock || (shape.answered && below(2) == 0);
    command.number = below(5) - 1;
    command.keys = {name()};
    command.values = {value(), value()};
    if (command.query == Query::DELETE_PREFIX) {
      command.keys = {below(4) == 0 ? "/" : name()};
    } else if (shape.fields[0] == Field::KEYS || shape.fields[0] == Field::PAIRS) {
      command.keys = below(2) == 0 ? names() : command.keys;
      command.values.resize(command.keys.size());
      std::generate(command.values.begin(), command.values.end(), [this] { return value(); });
    }
    return command;
  }

  std::mt19937 random_;
  CoreHarness server_;
  ReferenceServer reference_;
  std::vector<Client> clients_;
};

class StoreCoreModelTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(StoreCoreModelTest, AnswersAsTheReferenceHoweverRequestsAreCutAndMixed) {
  Conversation conversation(GetParam());

  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(str("step ", step));
    conversation.step();
    conversation.compare();
    if (HasFatalFailure()) {
      return;
    }
  }

  conversation.allLeave();
}
INSTANTIATE_TEST_SUITE_P(Seeds, StoreCoreModelTest, testing::Range(1U, 13U));

}  // namespace
}  // namespace unisono::tcp
