#include "transport/mesh/wire.hpp"

#include <gmock/gmock.h>

#include "transport/mesh/roster.hpp"

namespace unisono::mesh {
namespace {

using ::testing::ElementsAre;

TEST(MeshWireTest, NotesSurviveTheWay) {
  const Note note{.from = 3, .to = 77, .purpose = Purpose::WATCH};
  const std::string bytes = note.encode();
  ASSERT_EQ(bytes.size(), Note::kSize);
  const auto read = Note::decode(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->from, 3U);
  EXPECT_EQ(read->to, 77U);
  EXPECT_EQ(read->purpose, Purpose::WATCH);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Note::decode(std::string_view(bytes).substr(0, size)));
  }
  EXPECT_FALSE(Note::decode(bytes + "x"));
  std::string purpose = bytes;
  purpose[12] = 9;
  EXPECT_FALSE(Note::decode(purpose));
  std::string version = bytes;
  version[0] = 2;
  EXPECT_FALSE(Note::decode(version));
}

TEST(MeshWireTest, HeadsOfMessagesSurviveTheWay) {
  const MailHead head{
      .kind = MailHead::Kind::OFFER, .tag = 7, .number = 1ULL << 41U, .length = 1ULL << 40U};
  Frame::Bytes bytes;
  head.encode(bytes);
  const auto read = MailHead::decode(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, head.kind);
  EXPECT_EQ(read->tag, 7);
  EXPECT_EQ(read->number, head.number);
  EXPECT_EQ(read->bytes, 0U);
  EXPECT_EQ(read->length, head.length);
  EXPECT_FALSE(Frame::decode(bytes)) << "nobody takes it for a block of an operation";
  for (const int kind : {0, 1, 3, 15, 21, 255}) {
    bytes[0] = static_cast<std::byte>(kind);
    EXPECT_FALSE(MailHead::decode(bytes));
  }
}

TEST(MeshWireTest, HeadsOfMessagesThatCannotBeTrueAreNone) {
  using Kind = MailHead::Kind;
  for (const MailHead& head :
       {MailHead{.kind = Kind::MESSAGE, .bytes = 4, .length = 5},
        MailHead{.kind = Kind::MESSAGE, .tag = -1, .bytes = 4, .length = 4},
        MailHead{.kind = Kind::OFFER, .bytes = 1, .length = 1},
        MailHead{.kind = Kind::TAKE, .bytes = 1}, MailHead{.kind = Kind::CREDIT, .bytes = 1}}) {
    Frame::Bytes bytes;
    head.encode(bytes);
    EXPECT_FALSE(MailHead::decode(bytes)) << static_cast<int>(head.kind);
  }
}

TEST(MeshWireTest, FramesSurviveTheWay) {
  Frame frame{.kind = Frame::Kind::DATA, .seq = 1ULL << 40U, .bytes = 12};
  frame.call = {.signature = 0xdeadbeef,
                .opType = 1,
                .dtype = 2,
                .reduceOp = 3,
                .algorithm = 4,
                .root = -1,
                .count = 1ULL << 50U};
  Frame::Bytes bytes;
  frame.encode(bytes);
  const auto read = Frame::decode(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, frame.kind);
  EXPECT_EQ(read->seq, frame.seq);
  EXPECT_EQ(read->bytes, frame.bytes);
  EXPECT_EQ(read->call.signature, frame.call.signature);
  EXPECT_EQ(read->call.opType, 1);
  EXPECT_EQ(read->call.dtype, 2);
  EXPECT_EQ(read->call.reduceOp, 3);
  EXPECT_EQ(read->call.algorithm, 4);
  EXPECT_EQ(read->call.root, -1);
  EXPECT_EQ(read->call.count, frame.call.count);
  for (const int kind : {0, 4, 255}) {
    bytes[0] = static_cast<std::byte>(kind);
    EXPECT_FALSE(Frame::decode(bytes));
  }
}

TEST(MeshWireTest, CausesSurviveTheWay) {
  const AbortCause cause{.reason = Reason::PEER_DEAD,
                         .culprits = {2, 5},
                         .reporter = 1,
                         .seq = 9,
                         .text = "rank 2 has died"};
  const std::string bytes = encodeCause(cause);
  const auto read = decodeCause(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->reason, Reason::PEER_DEAD);
  EXPECT_THAT(read->culprits, ElementsAre(2, 5));
  EXPECT_EQ(read->reporter, 1);
  EXPECT_EQ(read->seq, 9U);
  EXPECT_EQ(read->text, "rank 2 has died");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decodeCause(std::string_view(bytes).substr(0, size)));
  }
  EXPECT_FALSE(decodeCause(bytes + "x"));
}

TEST(MeshWireTest, ALongCauseIsCut) {
  AbortCause cause{.reason = Reason::TIMEOUT, .culprits = {}, .text = std::string(100'000, 'x')};
  cause.culprits.assign(10'000, 1);
  const std::string bytes = encodeCause(cause);
  EXPECT_LE(bytes.size(), kLongestCause);
  EXPECT_TRUE(decodeCause(bytes));
}

TEST(MeshWireTest, ReportsSurviveTheWay) {
  const Report report{.state = Report::State::FAILED,
                      .seq = 4,
                      .cause = AbortCause{.reason = Reason::ABORTED, .text = "why"},
                      .calls = {{.seq = 3, .call = {.signature = 7}},
                                {.seq = 4, .call = {.signature = 8, .root = 2}}}};
  const std::string bytes = report.encode();
  const auto read = Report::decode(bytes);
  ASSERT_TRUE(read && read->cause);
  EXPECT_EQ(read->state, Report::State::FAILED);
  EXPECT_EQ(read->seq, 4U);
  EXPECT_EQ(read->cause->text, "why");
  ASSERT_EQ(read->calls.size(), 2U);
  EXPECT_EQ(read->calls[0].seq, 3U);
  EXPECT_EQ(read->calls[1].call.signature, 8U);
  EXPECT_EQ(read->calls[1].call.root, 2);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Report::decode(std::string_view(bytes).substr(0, size)));
  }
  EXPECT_TRUE(Report::decode(Report{}.encode()));
  EXPECT_FALSE(Report::decode(bytes + "x")) << "more than a report";
}

TEST(MeshWireTest, CardsSurviveTheWay) {
  const Member member{
      .host = "h", .process = "p q", .settings = "", .addresses = {{"10.0.0.1", 7}, {"::1", 8}}};
  const std::string bytes = member.encode();
  const auto read = Member::decode(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->host, "h");
  EXPECT_EQ(read->process, "p q");
  ASSERT_EQ(read->addresses.size(), 2U);
  EXPECT_EQ(read->addresses[0].text(), "10.0.0.1:7");
  EXPECT_EQ(read->addresses[1].text(), "[::1]:8");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Member::decode(std::string_view(bytes).substr(0, size)));
  }
  EXPECT_FALSE(Member::decode(bytes + "x"));
}

}  // namespace
}  // namespace unisono::mesh
