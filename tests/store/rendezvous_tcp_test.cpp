#include <future>
#include <gmock/gmock.h>

#include "unisono/store/rendezvous.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using std::chrono::milliseconds;
using test::ScopedEnv;
using test::textOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(std::string_view url, const RendezvousOptions& options = {}) {
  return textOf<UsageError>([&] { rendezvous(url, options); });
}

/// A server on a port of the kernel's choice, which rank 0 of this process will share.
class RendezvousTcpTest : public ::testing::Test {
 protected:
  TCPStore seed{"127.0.0.1",
                {.port = 0, .isServer = true, .waitWorkers = false, .multiTenant = true}};
  const std::string port = std::to_string(seed.port());
  const std::string url = "tcp://127.0.0.1:" + port;
};

TEST_F(RendezvousTcpTest, LetsTwoRanksSeeEachOther) {
  auto other = std::async(std::launch::async, [&] {
    return rendezvous(url + "?rank=1&world_size=2", {.timeout = milliseconds(30'000)});
  });
  const RendezvousResult first = rendezvous(url, {.rank = 0, .worldSize = 2});
  const RendezvousResult second = other.get();

  first.store->set("from0", "a");

  EXPECT_EQ(second.store->getString("from0"), "a");
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.worldSize, 2);
  EXPECT_EQ(second.store->timeout(), milliseconds(30'000));
}

TEST_F(RendezvousTcpTest, ReadsTheEnvironment) {
  const ScopedEnv rank("RANK", "0");
  const ScopedEnv size("WORLD_SIZE", "1");
  const ScopedEnv address("MASTER_ADDR", "127.0.0.1");
  const ScopedEnv masterPort("MASTER_PORT", port);

  const RendezvousResult result = rendezvous("env://");
  result.store->set("k", "v");

  EXPECT_EQ(result.rank, 0);
  EXPECT_EQ(result.worldSize, 1);
  EXPECT_EQ(seed.getString("k"), "v");
}

TEST_F(RendezvousTcpTest, PrefersWhatItIsGivenToTheEnvironment) {
  const ScopedEnv rank("RANK", "5");
  const ScopedEnv address("MASTER_ADDR", "127.0.0.1");
  const ScopedEnv masterPort("MASTER_PORT", port);

  const RendezvousResult result = rendezvous("env://?world_size=1", {.rank = 0});

  EXPECT_EQ(result.rank, 0);
}

TEST_F(RendezvousTcpTest, ChoosesTheEventLoopByUrlThenEnvironment) {
  const auto usesLibUv = [&](std::string_view parameters) {
    const RendezvousResult result = rendezvous(str(url, "?rank=0&world_size=1", parameters));
    return dynamic_cast<TCPStore&>(*result.store).isLibUvBackend();
  };

  EXPECT_TRUE(usesLibUv(""));
  EXPECT_FALSE(usesLibUv("&use_libuv=0"));
  const ScopedEnv off("USE_LIBUV", "0");
  EXPECT_FALSE(usesLibUv(""));
  EXPECT_TRUE(usesLibUv("&use_libuv=1"));
  const ScopedEnv yes("USE_LIBUV", "yes");
  EXPECT_FALSE(usesLibUv("")) << "only 1 means yes";
}

TEST_F(RendezvousTcpTest, IsAMereClientOfTheLaunchersStore) {
  const ScopedEnv agent("TORCHELASTIC_USE_AGENT_STORE", "True");
  const ScopedEnv address("MASTER_ADDR", "127.0.0.1");
  const ScopedEnv masterPort("MASTER_PORT", port);

  const RendezvousResult result = rendezvous(url + "?rank=0&world_size=1");

  EXPECT_THAT(dynamic_cast<TCPStore&>(*result.store).repr(), HasSubstr("server=<nullptr>"));
}

TEST_F(RendezvousTcpTest, ServesAPrivateStoreBesideTheLaunchers) {
  const ScopedEnv agent("TORCHELASTIC_USE_AGENT_STORE", "True");
  const ScopedEnv address("MASTER_ADDR", "127.0.0.1");
  const ScopedEnv masterPort("MASTER_PORT", "1");

  const RendezvousResult result = rendezvous(url + "?rank=0&world_size=1");

  EXPECT_THAT(dynamic_cast<TCPStore&>(*result.store).repr(), HasSubstr("server=TCPServer"));
}

TEST(RendezvousTcpErrorTest, NamesWhatIsMissingOrImpossible) {
  EXPECT_THAT(refusal("tcp://127.0.0.1?rank=0&world_size=1"),
              AllOf(HasSubstr("port number missing"), HasSubstr("DO: name the host and port")));
  EXPECT_THAT(refusal("tcp://127.0.0.1:5?world_size=1"), HasSubstr("rank parameter missing"));
  EXPECT_THAT(refusal("tcp://127.0.0.1:5?rank=0"), HasSubstr("world size parameter missing"));
  EXPECT_THAT(refusal("tcp://127.0.0.1:5?rank=0&world_size=3000000000"),
              HasSubstr("not a whole number from -2147483648 to 2147483647"));
  EXPECT_THAT(refusal("tcp://127.0.0.1:5?rank=3&world_size=2"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal("tcp://:5?rank=0&world_size=1"), HasSubstr("host missing"));
}

TEST(RendezvousTcpErrorTest, NamesTheVariableThatIsMissingOrWrong) {
  EXPECT_THAT(refusal("env://"), AllOf(HasSubstr("environment variable RANK expected, but not set"),
                                       HasSubstr("DO: set it")));
  const ScopedEnv rank("RANK", "0");
  EXPECT_THAT(refusal("env://"), HasSubstr("WORLD_SIZE expected"));
  const ScopedEnv size("WORLD_SIZE", "1");
  EXPECT_THAT(refusal("env://"), HasSubstr("MASTER_ADDR expected"));
  const ScopedEnv address("MASTER_ADDR", "127.0.0.1");
  EXPECT_THAT(refusal("env://"), HasSubstr("MASTER_PORT expected"));
  const ScopedEnv badPort("MASTER_PORT", "http");
  EXPECT_THAT(refusal("env://"), AllOf(HasSubstr("MASTER_PORT"), HasSubstr("'http'")));
  const ScopedEnv highPort("MASTER_PORT", "70000");
  EXPECT_THAT(refusal("env://"), HasSubstr("port must have value from 0 to 65535 but was 70000."));
}

}  // namespace
}  // namespace unisono
