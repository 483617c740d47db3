// What a server tells of itself.
#include <gmock/gmock.h>

#include "store/core_harness.hpp"

namespace unisono::tcp {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string statsOf(CoreHarness& server, ConnectionId client) {
  return server.ask(client, req(Query::GET).blob(kStatsKey)).substr(8);
}

TEST(StoreCoreStatsTest, CountWhatIsThereNow) {
  CoreHarness server;
  const ConnectionId client = server.connect();
  const ConnectionId waiter = server.connect();
  server.send(client, setOf("/k", "value"));
  server.send(waiter, waitOf({"/missing"}));

  EXPECT_THAT(statsOf(server, client),
              AllOf(HasSubstr("\"keys\":1,"), HasSubstr("\"waits\":1,"),
                    HasSubstr("\"connections\":2,"), HasSubstr("\"accepted\":2,")));

  server.disconnect(waiter);
  server.ask(client, req(Query::DELETE_KEY).blob("/k"));

  EXPECT_THAT(statsOf(server, client),
              AllOf(HasSubstr("\"keys\":0,"), HasSubstr("\"bytes\":0,"), HasSubstr("\"waits\":0,"),
                    HasSubstr("\"connections\":1,"), HasSubstr("\"accepted\":2,")));
}

TEST(StoreCoreStatsTest, CountQueuesAndWhatTheyHold) {
  CoreHarness server;
  const ConnectionId client = server.connect();
  for (const char* queue : {"/q", "/q", "/r"}) {
    server.send(client, req(Query::QUEUE_PUSH).blob(queue).blob("x"));
  }

  EXPECT_THAT(statsOf(server, client), HasSubstr("\"queues\":2,\"queued\":3,"));

  server.ask(client, req(Query::QUEUE_POP).blob("/q"));
  server.ask(client, req(Query::QUEUE_POP).blob("/r"));

  EXPECT_THAT(statsOf(server, client), HasSubstr("\"queues\":1,\"queued\":1,"));
}

TEST(StoreCoreStatsTest, CountRequestsOfBothFormsByKind) {
  CoreHarness server;
  const ConnectionId client = server.connect();
  server.send(client, setOf("/k", "1"));
  server.ask(client, ask(Query::SET).blob("/k").blob("2"));
  server.ask(client, ask(Query::DELETE_PREFIX).blob("/"));

  EXPECT_THAT(statsOf(server, client),
              AllOf(HasSubstr("\"set\":2,"), HasSubstr("\"delete_prefix\":1}"),
                    HasSubstr("\"get\":1,"), HasSubstr("\"add\":0,")));
}

TEST(StoreCoreStatsTest, TellLimitsAndTheTimeSinceTheStart) {
  CoreHarness server({.valueBytes = 77});
  const ConnectionId client = server.connect();

  EXPECT_THAT(statsOf(server, client),
              AllOf(HasSubstr("\"value_bytes\":77,"), HasSubstr("\"uptime_ms\":3600000,")));
}

TEST(StoreCoreStatsTest, AreNoKeyOfTheStore) {
  CoreHarness server;
  const ConnectionId client = server.connect();
  statsOf(server, client);

  EXPECT_EQ(server.ask(client, req(Query::NUM_KEYS)), i64(0));
  EXPECT_EQ(server.ask(client, req(Query::LIST_KEYS)), i64(0));
}

}  // namespace
}  // namespace unisono::tcp
