// What becomes of messages on the way by TCP. Messages as such: tests/backend, by TCP as well.
#include "transport/mesh/ferry.hpp"

#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "store/expect.hpp"
#include "support/watch.hpp"
#include "transport/mesh/mail.hpp"
#include "transport/mesh_world.hpp"

namespace unisono::mesh {
namespace {

using test::MeshWorld;
using test::textOfThrown;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class Letter final : public Parcel {
 public:
  Letter(bool out, int who, int label, std::vector<std::byte> content) : room(std::move(content)) {
    sends = out;
    peer = who;
    tag = label;
    data = room.data();
    bytes = room.size();
    timeout = 60s;
    deadline = Deadline::after(timeout);
  }
  Callbacks ended(int source, std::exception_ptr reason) noexcept override {
    from = source;
    failure = std::move(reason);
    isOver = true;
    return {};
  }
  std::vector<std::byte> room;
  std::atomic<bool> isOver{false};  // set last
  int from = kAnybody;
  std::exception_ptr failure;
};

std::shared_ptr<Letter> letter(bool sends, int peer, std::size_t bytes, int tag = 0) {
  return std::make_shared<Letter>(sends, peer, tag, std::vector<std::byte>(bytes, std::byte{7}));
}

std::string onWire(const MailHead& head, std::size_t payload = 0) {
  Frame::Bytes bytes;
  head.encode(bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) +
         std::string(payload, 'x');
}

/// Drives, or waits while the mail's own thread does.
void drive(Mail& mail, const Letter& until) {
  static_cast<void>(test::eventually(
      [&] {
        mail.help(until, systemClock().now() + 1s);
        return until.isOver.load();
      },
      30s));
}

class FerryTest : public ::testing::Test {
 protected:
  static void setBuffer(const Link& link, int which, int bytes) {
    ASSERT_EQ(::setsockopt(link.socket.fd(), SOL_SOCKET, which, &bytes, sizeof bytes), 0);
  }
  /// As rank 0 would send it to rank 1.
  void put(std::string_view bytes) {
    Mesh& links = world.mesh(0).mail();
    const Mesh::Turn turn(links);
    Link* link = links.outgoing(1);
    link = link != nullptr ? link : &links.connect(1, Deadline::after(20s));
    setBuffer(*link, SO_SNDBUF, 200'000);  // for all at once
    ASSERT_EQ(::send(link->socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  /// How much has come to `rank` from `peer` that it has not received; -1 while there is no link.
  int waiting(int rank, int peer) {
    Mesh& links = world.mesh(rank).mail();
    const Mesh::Turn turn(links);
    const Link* link = links.incoming(peer);
    int bytes = -1;
    return link != nullptr && ::ioctl(link->socket.fd(), FIONREAD, &bytes) == 0 ? bytes : -1;
  }
  /// Whether `rank` has a link to send to `peer` by.
  bool isLinked(int rank, int peer) {
    Mesh& links = world.mesh(rank).mail();
    const Mesh::Turn turn(links);
    return links.outgoing(peer) != nullptr;
  }
  /// Posts a letter of rank 0's; the link that it goes by is there then.
  std::shared_ptr<Letter> sendFirst(std::size_t bytes) {
    auto first = letter(true, 1, bytes);
    zero.post(first, true);
    EXPECT_TRUE(zero.flush(Deadline::after(60s)));
    return first;
  }

  MeshWorld world{2};
  Mail zero{world.mesh(0), 2, {0, 1}};
  Mail one{world.mesh(1), 2, {0, 1}};
};

TEST_F(FerryTest, AMessageMayComeByteByByte) {
  const auto mine = letter(false, 0, 3, 5);
  one.post(mine, true);
  for (const char byte :
       onWire({.kind = MailHead::Kind::MESSAGE, .tag = 5, .bytes = 3, .length = 3}, 3)) {
    EXPECT_FALSE(mine->isOver);
    put({&byte, 1});
    one.help(*mine, systemClock().now());
  }
  drive(one, *mine);
  EXPECT_TRUE(mine->isOver);
  EXPECT_FALSE(mine->failure);
  EXPECT_EQ(mine->from, 0);
  EXPECT_EQ(mine->room, std::vector<std::byte>(3, std::byte{'x'}));
}

TEST_F(FerryTest, AMessageThatEndsWithItsLinkIsNone) {
  const auto mine = letter(false, 0, 100);
  put(onWire({.kind = MailHead::Kind::MESSAGE, .bytes = 100, .length = 100}, 99));
  one.post(mine, true);
  world.mesh(0).mail().outgoing(1)->socket.shutdown();
  drive(one, *mine);
  ASSERT_TRUE(mine->isOver);
  EXPECT_THAT(textOfThrown(mine->failure),
              AllOf(HasSubstr("[PEER_UNREACHABLE]"), HasSubstr("culprits=[0]")));
}

/// A message that rank 0 has offered to rank 1, and that rank 1 has asked for.
class FerryOfferTest : public FerryTest {
 protected:
  static constexpr std::uint64_t kNumber = 9;
  static constexpr std::size_t kBytes = 200'000;

  FerryOfferTest() {
    one.post(mine, true);
    put(onWire({.kind = MailHead::Kind::OFFER, .number = kNumber, .length = kBytes}));
    // Until the answer has gone.
    EXPECT_TRUE(test::eventually([&] {
      one.help(*mine, systemClock().now());
      return waiting(0, 1) > 0;
    }));
  }
  std::string part(std::size_t bytes, std::size_t payload) const {
    return onWire({.kind = MailHead::Kind::PART, .number = kNumber, .bytes = bytes}, payload);
  }
  /// How much of it is where it belongs.
  std::ptrdiff_t arrived() const {
    return std::count(mine->room.begin(), mine->room.end(), std::byte{'x'});
  }

  const std::shared_ptr<Letter> mine = letter(false, 0, kBytes);
};

TEST_F(FerryOfferTest, ItsBytesNeedNotWaitForTheRestOfTheirPart) {
  constexpr std::size_t kSome = 150'000;  // more than there is room for elsewhere
  put(part(kBytes, kSome));
  EXPECT_TRUE(test::eventually([&] {
    one.help(*mine, systemClock().now());
    return waiting(1, 0) == 0;
  }));
  EXPECT_FALSE(mine->isOver);
  put(std::string(kBytes - kSome, 'x'));
  drive(one, *mine);
  EXPECT_TRUE(mine->isOver && !mine->failure) << textOfThrown(mine->failure);
  EXPECT_EQ(arrived(), static_cast<std::ptrdiff_t>(kBytes));
}

TEST_F(FerryOfferTest, ItMayComeInPartsOfAnyLengthAndOtherMessagesBetween) {
  const auto other = letter(false, 0, 3, 5);
  one.post(other, true);
  const std::string small =
      onWire({.kind = MailHead::Kind::MESSAGE, .tag = 5, .bytes = 3, .length = 3}, 3);
  put(part(0, 0) + part(1, 1) + small + part(50'000, 50'000));
  put(part(kBytes - 50'001, kBytes - 50'002));
  drive(one, *other);
  EXPECT_TRUE(other->isOver && !other->failure);
  put("x");
  drive(one, *mine);
  EXPECT_TRUE(mine->isOver && !mine->failure) << textOfThrown(mine->failure);
  EXPECT_EQ(arrived(), static_cast<std::ptrdiff_t>(kBytes));
}

TEST_F(FerryOfferTest, MoreThanItsLengthMakesNoSense) {
  put(part(kBytes + 1, 8));
  drive(one, *mine);
  ASSERT_TRUE(mine->isOver);
  EXPECT_THAT(textOfThrown(mine->failure), AllOf(HasSubstr("[PROTOCOL]"), HasSubstr("culprits=[0]"),
                                                 HasSubstr("makes no sense")));
}

TEST_F(FerryOfferTest, APartThatEndsWithItsLinkIsNoMessage) {
  put(part(kBytes, 50'000));
  world.mesh(0).mail().outgoing(1)->socket.shutdown();
  drive(one, *mine);
  ASSERT_TRUE(mine->isOver);
  EXPECT_THAT(textOfThrown(mine->failure),
              AllOf(HasSubstr("[PEER_UNREACHABLE]"), HasSubstr("culprits=[0]")));
}

TEST_F(FerryOfferTest, WhatComesForWhoHasGivenUpIsThrownAway) {
  put(part(kBytes, 50'000));
  one.help(*mine, systemClock().now());
  setBuffer(*world.mesh(1).mail().outgoing(0), SO_SNDBUF, 4096);
  setBuffer(*world.mesh(0).mail().incoming(1), SO_RCVBUF, 4096);
  for (int i = 0; i < 100; ++i) {  // more than goes, so that there is something left to do
    one.post(letter(true, 0, 8000), true);
  }
  one.end();
  ASSERT_TRUE(mine->isOver);
  std::fill(mine->room.begin(), mine->room.end(), std::byte{});
  put(std::string(kBytes - 50'000, 'x') + part(50'000, 50'000));
  EXPECT_FALSE(one.settle(Deadline::after(300ms)));
  EXPECT_EQ(waiting(1, 0), 0) << "nobody is held up by it";
  EXPECT_EQ(arrived(), 0) << "its memory may be somebody else's by now";
  EXPECT_FALSE(world.mesh(1).hasFailed());
}

TEST_F(FerryTest, LongMessagesToEachOtherAndShortOnesBetweenAllArrive) {
  constexpr std::size_t kLong = 3'000'000;
  constexpr int kMany = 8;
  const auto thrown = test::onThreads(2, [&](int rank) {
    Mail& mail = rank == 0 ? zero : one;
    std::vector<std::shared_ptr<Letter>> letters;
    for (int tag = 0; tag < kMany; ++tag) {
      const std::size_t bytes = tag % 2 == 0 ? kLong + static_cast<std::size_t>(tag) : 10;
      letters.push_back(letter(true, 1 - rank, bytes, tag));
      std::fill(letters.back()->room.begin(), letters.back()->room.end(), std::byte(tag + 10));
      letters.push_back(letter(false, 1 - rank, bytes, tag));
    }
    for (const auto& each : letters) {
      mail.post(each, true);
    }
    for (const auto& each : letters) {
      drive(mail, *each);
      ASSERT_TRUE(each->isOver && !each->failure) << textOfThrown(each->failure);
      EXPECT_EQ(each->room, std::vector<std::byte>(each->bytes, std::byte(each->tag + 10)));
    }
  });
  EXPECT_THAT(thrown, ::testing::Each(nullptr));
}

TEST_F(FerryTest, ASenderThatGivesUpInTheMiddleEndsItsLink) {
  const auto out = letter(true, 1, 20'000'000);  // more than the kernel takes
  zero.post(out, true);
  {
    Mesh& links = world.mesh(1).mail();
    const Mesh::Turn turn(links);
    const std::string take = onWire({.kind = MailHead::Kind::TAKE, .number = 1});
    const int back = links.connect(0, Deadline::after(20s)).socket.fd();
    ASSERT_EQ(::send(back, take.data(), take.size(), MSG_NOSIGNAL), std::ssize(take));
  }
  const auto hasBegun = [&] {
    zero.help(*out, systemClock().now());
    return waiting(1, 0) > 50'000;
  };
  ASSERT_TRUE(test::eventually(hasBegun));
  zero.end();
  EXPECT_TRUE(out->isOver && out->failure);
  EXPECT_TRUE(zero.settle(Deadline::after(20s)));
  world.mesh(0).leave();
  std::size_t came = 0;
  std::vector<char> bytes(1'000'000);
  const int link = world.mesh(1).mail().incoming(0)->socket.fd();
  EXPECT_TRUE(test::eventually([&] {
    const ssize_t got = ::recv(link, bytes.data(), bytes.size(), MSG_DONTWAIT);
    came += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    return got == 0 || (got < 0 && !isForLater());
  })) << "who receives it would wait for ever";
  EXPECT_LT(came, out->bytes);
}

class HostileFerryTest : public FerryTest, public ::testing::WithParamInterface<MailHead> {};

TEST_P(HostileFerryTest, EndsTheGroupNamingWhoSentIt) {
  put(onWire(GetParam(), 8));
  const auto mine = letter(false, 0, 8);
  one.post(mine, true);
  drive(one, *mine);
  ASSERT_TRUE(mine->isOver);
  EXPECT_THAT(textOfThrown(mine->failure), AllOf(HasSubstr("[PROTOCOL]"), HasSubstr("culprits=[0]"),
                                                 HasSubstr("what rank 0 has sent makes no sense")));
  EXPECT_TRUE(world.mesh(1).hasFailed()) << "operations learn it too";
}
INSTANTIATE_TEST_SUITE_P(
    Heads, HostileFerryTest,
    ::testing::Values(MailHead{.kind = static_cast<MailHead::Kind>(77)},
                      MailHead{
                          .kind = MailHead::Kind::MESSAGE, .bytes = 1U << 20U, .length = 1U << 20U},
                      MailHead{.kind = MailHead::Kind::MESSAGE, .bytes = ~0ULL, .length = ~0ULL},
                      MailHead{.kind = MailHead::Kind::PART, .number = 5, .bytes = 8},
                      MailHead{.kind = MailHead::Kind::TAKE, .number = 5},
                      MailHead{.kind = MailHead::Kind::CREDIT, .length = 5}));

TEST_F(FerryTest, OneWayTrafficNeverNeedsAReceiverThatWaits) {
  constexpr std::size_t kBytes = 8000;
  constexpr std::size_t kMany = 2000;  // four times what a receiver may keep
  for (std::size_t i = 0; i < kMany; ++i) {
    const auto in = letter(false, 0, kBytes);
    one.post(in, true);
    if (i == kMany / 20) {
      // It tells that it keeps nothing of what came. The link for that is made by the way, which on
      // a busy machine may take longer than hundreds of messages.
      ASSERT_TRUE(test::eventually([&] {
        one.help(*in, systemClock().now());
        return isLinked(1, 0);
      }));
    }
    const auto out = letter(true, 1, kBytes);
    zero.post(out, true);
    ASSERT_TRUE(out->isOver) << "message " << i << " was not sent without being asked for";
    drive(one, *in);
    ASSERT_TRUE(in->isOver);
  }
}

TEST_F(FerryTest, WhatWasSentOutlivesItsSenderHoweverMuchItIs) {
  constexpr std::size_t kBytes = 8000;
  sendFirst(kBytes);
  std::size_t sent = 1;
  for (bool more = true; more && sent < 400; ++sent) {  // less than may be kept
    const auto out = letter(true, 1, kBytes);
    zero.post(out, true);
    more = out->isOver;
    ASSERT_TRUE(more);
  }
  ASSERT_TRUE(zero.settle(Deadline::after(60s)));
  zero.end();
  world.mesh(0).leave();
  for (std::size_t i = 0; i < sent; ++i) {
    const auto in = letter(false, 0, kBytes);
    one.post(in, true);
    drive(one, *in);
    ASSERT_TRUE(in->isOver && !in->failure) << i << ": " << textOfThrown(in->failure);
  }
}

// The kernel takes little here, so that some of what counts as sent is still in this process.
TEST_F(FerryTest, WhatTheKernelDoesNotTakeIsNotForgotten) {
  constexpr std::size_t kMany = 100;
  constexpr std::size_t kBytes = 8000;
  std::vector<std::shared_ptr<Letter>> out{sendFirst(kBytes)};
  setBuffer(*world.mesh(0).mail().outgoing(1), SO_SNDBUF, 4096);
  for (std::size_t i = 1; i < kMany; ++i) {
    out.push_back(letter(true, 1, kBytes));
    zero.post(out.back(), true);
  }
  std::vector<std::shared_ptr<Letter>> in;
  for (std::size_t i = 0; i < kMany; ++i) {  // while nobody waits for them on the other side
    in.push_back(letter(false, 0, kBytes));
    one.post(in.back(), true);
    drive(one, *in.back());
  }
  EXPECT_TRUE(zero.flush(Deadline::after(60s)));
  for (std::size_t i = 0; i < kMany; ++i) {
    EXPECT_TRUE(test::eventually([&] { return out[i]->isOver && !out[i]->failure; })) << i;
    EXPECT_TRUE(in[i]->isOver && !in[i]->failure) << i;
  }
}

TEST_F(FerryTest, ARankThatNeverConnectedIsNamedWhenItLeaves) {
  const auto mine = letter(false, 0, 8);
  one.post(mine, true);
  zero.end();
  world.mesh(0).leave();
  drive(one, *mine);
  ASSERT_TRUE(mine->isOver);
  EXPECT_THAT(textOfThrown(mine->failure),
              AllOf(HasSubstr("[PEER_LEFT]"), HasSubstr("culprits=[0]")));
}

TEST(FerryOfThreeTest, AnybodyMeansThoseWhoHaveNotLeft) {
  MeshWorld world{3};
  Mail zero{world.mesh(0), 3, {0, 1, 2}};
  Mail two{world.mesh(2), 3, {0, 1, 2}};
  const auto any = letter(false, Parcel::kAnybody, 8);
  zero.post(any, true);
  world.mesh(1).leave();
  zero.help(*any, systemClock().now() + 150ms);  // in which it has looked for all
  EXPECT_FALSE(any->isOver);
  const auto sent = letter(true, 0, 8);
  two.post(sent, true);
  drive(zero, *any);
  ASSERT_TRUE(any->isOver);
  EXPECT_FALSE(any->failure);
  EXPECT_EQ(any->from, 2);
}

}  // namespace
}  // namespace unisono::mesh
