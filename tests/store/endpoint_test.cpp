#include "store/endpoint.hpp"

#include <gmock/gmock.h>

#include "unisono/store/file_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using std::chrono::seconds;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class EndpointTest : public ::testing::Test {
 protected:
  StorePtr open(const std::string& url) { return openEndpoint(url, seconds(10)); }
  std::string refusal(const std::string& url) {
    return textOf<UsageError>([&] { open(url); });
  }

  const test::TempDir folder;
};

TEST_F(EndpointTest, TcpIsAClientThatIsNoWorker) {
  TCPStore server("127.0.0.1", {.port = 0, .isServer = true, .waitWorkers = false});
  const StorePtr store = open(str("tcp://127.0.0.1:", server.port()));
  store->set("k", "v");

  EXPECT_EQ(server.getString("k"), "v");
  EXPECT_EQ(server.numKeys(), 1);  // no init/
}

TEST_F(EndpointTest, APathIsAPrefix) {
  TCPStore server("127.0.0.1", {.port = 0, .isServer = true, .waitWorkers = false});
  open(str("tcp://127.0.0.1:", server.port(), "/job/7/"))->set("k", "v");
  open(str("tcp://127.0.0.1:", server.port(), "/"))->set("k", "v");

  EXPECT_THAT(server.listKeys(), UnorderedElementsAre("job/7/k", "k"));
}

TEST_F(EndpointTest, AVisitedFileKeepsWhatItsDeadJobLeft) {
  const std::string path = folder.file("store");
  ASSERT_EQ(test::runInChild([&] {
              FileStore(path).set("k", "v");
              return true;
            }),
            0);

  EXPECT_EQ(open("file://" + path)->getString("k"), "v");
  EXPECT_EQ(open("file://" + path)->getString("k"), "v");
  EXPECT_TRUE(FileStore(path).listKeys().empty());  // a member begins anew
}

TEST_F(EndpointTest, VisitorsDoNotCountWhenAFileIsToBeRemoved) {
  const std::string path = folder.file("store");
  {
    FileStore member(path, 2);
    for (int visit = 0; visit < 3; ++visit) {
      open("file://" + path)->set("k", "v");
    }
  }

  EXPECT_EQ(open("file://" + path)->getString("k"), "v");
}

TEST_F(EndpointTest, TheEnvironmentNamesAStore) {
  const test::ScopedEnv none("UNISONO_STORE", "");
  const test::ScopedEnv host("MASTER_ADDR", "127.0.0.1");
  {
    const test::ScopedEnv port("MASTER_PORT", "");
    EXPECT_EQ(endpointFromEnvironment(), "");
  }
  const test::ScopedEnv port("MASTER_PORT", "29500");
  EXPECT_EQ(endpointFromEnvironment(), "env://");
  const test::ScopedEnv store("UNISONO_STORE", "tcp://10.0.0.1:1");
  EXPECT_EQ(endpointFromEnvironment(), "tcp://10.0.0.1:1");
}

TEST_F(EndpointTest, TakesSchemesInAnyCase) {
  EXPECT_EQ(parseEndpoint("TCP://Host:1/Prefix").host, "Host");
  EXPECT_EQ(parseEndpoint("TCP://Host:1/Prefix").prefix, "Prefix");
  EXPECT_EQ(parseEndpoint("File:///tmp/X").file, "/tmp/X");
}

TEST_F(EndpointTest, SaysHowAnEndpointIsWrittenNotARendezvous) {
  for (const char* url : {"127.0.0.1:29500", "tcp://h:99999", "tcp://u@h:1", "tcp://[::1"}) {
    EXPECT_THAT(refusal(url), AllOf(HasSubstr("tcp://host:port"), Not(HasSubstr("world_size"))));
  }
}

TEST_F(EndpointTest, RefusesWhatIsNoStore) {
  EXPECT_THAT(refusal("tpc://127.0.0.1:1"), HasSubstr("did you mean tcp://?"));
  EXPECT_THAT(refusal("tcp://:29500"), HasSubstr("the host is missing"));
  EXPECT_THAT(refusal("tcp://127.0.0.1:0"), HasSubstr("a port is from 1 to 65535"));
  EXPECT_THAT(refusal("tcp://127.0.0.1:1?rank=0"), HasSubstr("'rank' has no meaning here"));
  EXPECT_THAT(refusal("file://tmp/x"), HasSubstr("third slash"));
  EXPECT_THAT(refusal("127.0.0.1:29500"), HasSubstr("scheme"));
}

}  // namespace
}  // namespace unisono
