// What ranks of different hosts tell each other: frames and reports on connections, cards and lists
// of members in the store. Whatever bytes they are, they are refused or mean exactly what they say.
#include <algorithm>
#include <fuzzer/FuzzedDataProvider.h>

#include "unisono/store/hash_store.hpp"

#include "base/bytes.hpp"
#include "fuzz/check.hpp"
#include "net/handshake.hpp"
#include "transport/mesh/roster.hpp"
#include "transport/mesh/wire.hpp"

namespace {

using namespace unisono;
using namespace unisono::mesh;

constexpr const char* kCookie = "0123456789abcdef0123456789abcdef";
constexpr std::size_t kLongest = 3000;

void readNote(const std::string& bytes) {
  if (const std::optional<Note> note = Note::decode(bytes)) {
    FUZZ_EXPECT(note->encode() == bytes);
  }
}

void readFrame(const std::string& bytes) {
  Frame::Bytes head{};
  std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), std::min(bytes.size(), head.size()),
              head.begin());
  const std::optional<Frame> frame = Frame::decode(head);
  if (!frame) {
    return;
  }
  Frame::Bytes again{};
  frame->encode(again);
  const std::optional<Frame> second = Frame::decode(again);
  FUZZ_EXPECT(second && second->kind == frame->kind && second->seq == frame->seq);
  FUZZ_EXPECT(second->bytes == frame->bytes && second->call.count == frame->call.count);
  FUZZ_EXPECT(second->call.signature == frame->call.signature);
}

void readCause(const std::string& bytes) {
  if (const std::optional<AbortCause> cause = decodeCause(bytes)) {
    FUZZ_EXPECT(cause->text.size() <= bytes.size() && cause->culprits.size() <= bytes.size() / 4);
    FUZZ_EXPECT(decodeCause(encodeCause(*cause)).has_value());
  }
}

void readReport(const std::string& bytes) {
  if (const std::optional<Report> report = Report::decode(bytes)) {
    const std::optional<Report> again = Report::decode(report->encode());
    FUZZ_EXPECT(again && again->state == report->state && again->seq == report->seq);
    FUZZ_EXPECT(again->cause.has_value() == report->cause.has_value());
  }
}

void readHello(const std::string& bytes) {
  if (const std::optional<Hello> hello = Hello::parse(bytes)) {
    FUZZ_EXPECT(hello->id.size() == kHandshakeIdSize);
    FUZZ_EXPECT(kHelloSize + hello->note.size() == bytes.size());
  }
}

Member somebody() {
  return {.host = "h", .process = "1 2 3 b host", .settings = "s", .addresses = {{"10.0.0.1", 7}}};
}

/// A group of two in whose store the other rank has left `bytes`.
void meetOne(int rank, const std::string& bytes) {
  const auto store = std::make_shared<HashStore>();
  const std::string key =
      std::string("unisono/mesh/") + kCookie + (rank == 0 ? "/card/1" : "/roster");
  store->set(key, asBytes(bytes));
  try {
    const Roster roster = meet({.store = store,
                                .rank = rank,
                                .size = 2,
                                .group = "fuzz",
                                .cookie = kCookie,
                                .timeout = Milliseconds(0)},
                               somebody(), [](int, const Member&) { return std::nullopt; });
    FUZZ_EXPECT(roster.size() == 2);
  } catch (const DistError& error) {
    FUZZ_EXPECT(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

/// A list of members, or a refusal, some of whose parts make sense.
std::string rosterOf(FuzzedDataProvider& data) {
  std::string bytes(1, data.PickValueInArray({'A', 'R', 'x'}));
  if (bytes == "R") {
    const AbortCause cause{.reason = Reason::CONFIG,
                           .culprits = {data.ConsumeIntegral<int>()},
                           .reporter = data.ConsumeIntegral<int>(),
                           .text = "why\n"};
    bytes += encodeCause(cause);
  } else {
    for (int count = data.ConsumeIntegralInRange(0, 3); count > 0; --count) {
      ByteWriter(bytes).blob(data.ConsumeBool() ? somebody().encode()
                                                : data.ConsumeRandomLengthString(100));
    }
  }
  return bytes + data.ConsumeRandomLengthString(20);
}

/// A card in which any field may be anything.
std::string cardOf(FuzzedDataProvider& data) {
  Member member = somebody();
  for (std::string* field :
       {&member.host, &member.process, &member.settings, &member.addresses.front().host}) {
    *field = data.ConsumeBool() ? *field : data.ConsumeRandomLengthString(60);
  }
  return member.encode() + data.ConsumeRandomLengthString(4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  switch (data.ConsumeIntegralInRange(0, 8)) {
    case 0:
      readNote(data.ConsumeRemainingBytesAsString());
      break;
    case 1:
      readFrame(data.ConsumeRemainingBytesAsString());
      break;
    case 2:
      readCause(data.ConsumeRemainingBytesAsString());
      break;
    case 3:
      readReport(data.ConsumeRemainingBytesAsString());
      break;
    case 4:
      readHello(data.ConsumeRemainingBytesAsString());
      break;
    case 5:
      meetOne(0, data.ConsumeRandomLengthString(kLongest));
      break;
    case 6:
      meetOne(1, data.ConsumeRandomLengthString(kLongest));
      break;
    case 7:
      meetOne(0, cardOf(data));
      break;
    default:
      meetOne(1, rosterOf(data));
      break;
  }
  return 0;
}
