#include "unisono/store/rendezvous.hpp"

#include <gmock/gmock.h>

#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"

#include "base/str.hpp"
#include "store/expect.hpp"
#include "support/support.hpp"

namespace unisono {
namespace {

using test::textOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string refusal(std::string_view url, const RendezvousOptions& options = {}) {
  return textOf<UsageError>([&] { rendezvous(url, options); });
}

/// A scheme that no test has used: what is registered stays for the life of the process.
std::string freshScheme() {
  static int made = 0;
  return str("test", ++made);
}

TEST(RendezvousUrlTest, TakesAUrlApart) {
  const RendezvousUrl url = parseRendezvousUrl("tcp://10.0.0.1:29500/a/b?rank=1&world_size=4#x");

  EXPECT_EQ(url.scheme, "tcp");
  EXPECT_EQ(url.host, "10.0.0.1");
  EXPECT_EQ(url.port, 29500);
  EXPECT_EQ(url.path, "/a/b");
  EXPECT_THAT(url.query, ElementsAre(Pair("rank", "1"), Pair("world_size", "4")));
}

TEST(RendezvousUrlTest, LeavesOutWhatIsNotThere) {
  const RendezvousUrl url = parseRendezvousUrl("env://");

  EXPECT_EQ(url.host, "");
  EXPECT_FALSE(url.port);
  EXPECT_EQ(url.path, "");
  EXPECT_TRUE(url.query.empty());
  EXPECT_FALSE(parseRendezvousUrl("tcp://host:").port);
}

TEST(RendezvousUrlTest, TakesIpv6AddressesOutOfTheirBrackets) {
  EXPECT_EQ(parseRendezvousUrl("tcp://[::1]:5").host, "::1");
  EXPECT_EQ(parseRendezvousUrl("tcp://[::1]:5").port, 5);
  EXPECT_EQ(parseRendezvousUrl("tcp://[fe80::1%25eth0]").host, "fe80::1%eth0");
}

TEST(RendezvousUrlTest, DecodesPathAndQuery) {
  const RendezvousUrl url = parseRendezvousUrl("file:///a%20b%3Fc/100%/%zz?na%6De=a%26b%3d");

  EXPECT_EQ(url.path, "/a b?c/100%/%zz");
  EXPECT_THAT(url.query, ElementsAre(Pair("name", "a&b=")));
}

TEST(RendezvousUrlTest, SaysWhatIsWrong) {
  const auto wrong = [](std::string_view url) {
    return textOf<UsageError>([&] { parseRendezvousUrl(url); });
  };

  EXPECT_THAT(wrong("/tmp/file"), HasSubstr("scheme"));
  EXPECT_THAT(wrong("://host"), HasSubstr("scheme"));
  EXPECT_THAT(wrong("tcp://host:65536"),
              HasSubstr("port must have value from 0 to 65535 but was 65536."));
  EXPECT_THAT(wrong("tcp://host:-1"),
              HasSubstr("port must have value from 0 to 65535 but was -1."));
  EXPECT_THAT(wrong("tcp://host:99999999999"), HasSubstr("but was 99999999999."));
  EXPECT_THAT(wrong("tcp://host:http"), HasSubstr("'http' is not a number"));
  EXPECT_THAT(wrong("tcp://::1:5"), HasSubstr("in brackets"));
  EXPECT_THAT(wrong("tcp://[::1"), HasSubstr("not closed"));
  EXPECT_THAT(wrong("tcp://user@host:5"), HasSubstr("user name"));
  EXPECT_THAT(wrong("tcp://host:5?rank"), HasSubstr("'rank' has no value"));
  EXPECT_THAT(wrong("tcp://host:5?rank=1&rank=1"), HasSubstr("given twice"));
}

TEST(RendezvousTest, NamesTheKnownSchemesAndTheNearestForAnUnknownOne) {
  EXPECT_THAT(refusal("tpc://host:1"), AllOf(HasSubstr("No rendezvous handler for tpc://"),
                                             HasSubstr("env"), HasSubstr("did you mean tcp")));
  EXPECT_THAT(rendezvousSchemes(), AllOf(Contains("env"), Contains("file"), Contains("tcp")));
}

TEST(RendezvousTest, RefusesWhatIsGivenTwice) {
  EXPECT_THAT(refusal("file://foo?rank=12&world_size=16", {.rank = 12, .worldSize = 16}),
              HasSubstr("has node-specific arguments"));
  EXPECT_THAT(refusal("tcp://host:1?world_size=2", {.rank = 0, .worldSize = 2}),
              HasSubstr("world_size is given there"));
}

TEST(RendezvousTest, UsesSchemesThatWereAdded) {
  const auto store = std::make_shared<HashStore>();
  const std::string scheme = freshScheme();
  RendezvousOptions seen;
  registerRendezvousHandler(scheme,
                            [&](const RendezvousUrl& url, const RendezvousOptions& options) {
                              seen = options;
                              return RendezvousResult{store, std::stoi(url.path.substr(1)), 9};
                            });

  const RendezvousResult result = rendezvous(scheme + ":///7?world_size=9", {.rank = 7});

  EXPECT_EQ(result.store, store);
  EXPECT_EQ(result.rank, 7);
  EXPECT_EQ(seen.rank, 7);
  EXPECT_EQ(seen.worldSize, 9) << "the URL's";
  EXPECT_THAT(rendezvousSchemes(), Contains(scheme));
}

TEST(RendezvousTest, RefusesToReplaceAScheme) {
  const RendezvousHandler handler = [](const RendezvousUrl&, const RendezvousOptions&) {
    return RendezvousResult{};
  };
  const std::string scheme = freshScheme();
  registerRendezvousHandler(scheme, handler);

  EXPECT_THAT(textOf<UsageError>([&] { registerRendezvousHandler(scheme, handler); }),
              HasSubstr("already registered"));
  EXPECT_THROW(registerRendezvousHandler("tcp", handler), UsageError);
  EXPECT_THROW(registerRendezvousHandler("a:b", handler), UsageError);
  EXPECT_THROW(registerRendezvousHandler("empty", {}), UsageError);
}

TEST(FileRendezvousTest, LetsTwoRanksSeeEachOther) {
  const test::TempDir folder;
  const std::string url = str("file://", folder.file("my%20job"), "?world_size=2");

  const RendezvousResult first = rendezvous(url, {.rank = 0});
  const RendezvousResult second =
      rendezvous(url + "&rank=1", {.timeout = std::chrono::milliseconds(1234)});
  first.store->set("from0", "a");
  second.store->set("from1", "b");

  EXPECT_EQ(first.store->getString("from1"), "b");
  EXPECT_EQ(second.store->getString("from0"), "a");
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.worldSize, 2);
  EXPECT_EQ(second.store->timeout(), std::chrono::milliseconds(1234));
  EXPECT_EQ(dynamic_cast<FileStore&>(*first.store).path(), folder.file("my job"));
}

TEST(FileRendezvousTest, NamesWhatIsMissingOrImpossible) {
  EXPECT_THAT(refusal("file://?rank=0&world_size=1"),
              AllOf(HasSubstr("path missing"), HasSubstr("DO: a path begins with a third slash")));
  EXPECT_THAT(refusal("file://tmp/x?rank=0&world_size=1"), HasSubstr("third slash"));
  EXPECT_THAT(refusal("file:///tmp/x?world_size=1"), HasSubstr("rank parameter missing"));
  EXPECT_THAT(refusal("file:///tmp/x?rank=0"), HasSubstr("world size parameter missing"));
  EXPECT_THAT(refusal("file:///tmp/x?rank=2&world_size=2"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal("file:///tmp/x?rank=-1&world_size=2"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal("file:///tmp/x?rank=0&world_size=0"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("file:///tmp/x?rank=first&world_size=2"),
              AllOf(HasSubstr("rank"), HasSubstr("'first'"), HasSubstr("not a whole number")));
}

}  // namespace
}  // namespace unisono
