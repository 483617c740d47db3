#include "bench/store/compare.hpp"

#include <gmock/gmock.h>

#include "unisono/base/error.hpp"

#include "bench/store/picture.hpp"
#include "store/tcp/server.hpp"
#include "support/fake_server.hpp"

namespace unisono::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Servers of this process under the names of peers.
class CompareTest : public ::testing::Test {
 protected:
  static Peer peerAt(std::string name, Dialect dialect, std::uint16_t port) {
    Peer peer;
    peer.target = {.name = std::move(name), .dialect = dialect, .host = "127.0.0.1", .port = port};
    return peer;
  }

  tcp::StoreServer ours{{.host = "127.0.0.1"}, Deadline::after(Milliseconds(5000))};
  const Plan quick{.verbs = verbs(),
                   .clients = {1, 3},
                   .depths = {1, 5},
                   .valueSize = 7,
                   .rounds = 3,
                   .duration = Milliseconds(5)};
};

TEST_F(CompareTest, MeasuresEverythingOfEverybody) {
  std::vector<Peer> peers;
  peers.push_back(peerAt("first", Dialect::UNISONO, ours.port()));
  peers.push_back(peerAt("second", Dialect::TORCH, ours.port()));
  std::vector<std::size_t> steps;

  const std::vector<Row> rows = compare(peers, quick, [&](std::size_t done, std::size_t all) {
    EXPECT_EQ(all, verbs().size() * 2 * 2 * 3 * 2);
    steps.push_back(done);
  });

  EXPECT_THAT(rows, SizeIs(verbs().size() * 2 * 2 * 2));
  EXPECT_EQ(steps.size(), verbs().size() * 2 * 2 * 3 * 2 + 1);
  for (const Row& row : rows) {
    EXPECT_GT(row.figures.opsPerSecond, 0) << row.peer << " " << row.verb;
    EXPECT_GE(row.figures.p99Us, row.figures.p50Us);
    EXPECT_EQ(row.ratio.has_value(), row.peer == "second");
    if (row.ratio) {
      EXPECT_LE(row.ratioLeast, *row.ratio);
      EXPECT_GE(row.ratioMost, *row.ratio);
    }
  }
}

TEST_F(CompareTest, SaysWhichServerBrokeOff) {
  test::FakeServer rude([](Socket& client, int) { client.shutdown(); });
  std::vector<Peer> peers;
  peers.push_back(peerAt("rude", Dialect::REDIS, rude.port()));

  try {
    compare(peers, quick, [](std::size_t, std::size_t) {});
    FAIL() << "it measured nothing and said nothing";
  } catch (const DistNetworkError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the load on rude at 127.0.0.1:"));
  }
}

TEST(MedianTest, IsTheMiddleOrTheMeanOfBoth) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(PictureTest, HasABarForEveryRow) {
  std::vector<Row> rows;
  for (const char* peer : {"unisono", "redis"}) {
    for (const std::size_t clients : {1U, 16U}) {
      Row row;
      row.peer = peer;
      row.verb = "get";
      row.clients = clients;
      row.depth = 1;
      row.figures.opsPerSecond = 123'456;
      rows.push_back(row);
    }
  }

  const std::string picture = drawRates(rows, "a machine");

  EXPECT_THAT(picture, HasSubstr("<svg"));
  EXPECT_THAT(picture, HasSubstr("123 k"));
  EXPECT_THAT(picture, HasSubstr("16 clients"));
  EXPECT_THAT(picture, HasSubstr("a machine"));
}

}  // namespace
}  // namespace unisono::bench
