#include "transport/mesh/wire.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace unisono::mesh {
namespace {

template <typename T>
void put(Frame::Bytes& into, std::size_t at, T value) noexcept {
  std::memcpy(into.data() + at, &value, sizeof value);
}
template <typename T>
T get(const Frame::Bytes& from, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

// Where the fields of a frame are.
constexpr std::size_t kKindAt = 0;
constexpr std::size_t kOpTypeAt = 1;
constexpr std::size_t kDtypeAt = 2;
constexpr std::size_t kReduceOpAt = 3;
constexpr std::size_t kSignatureAt = 4;
constexpr std::size_t kSeqAt = 8;
constexpr std::size_t kBytesAt = 16;
constexpr std::size_t kCountAt = 24;
constexpr std::size_t kRootAt = 32;
constexpr std::size_t kAlgorithmAt = 36;

// Where those of a message's head are.
constexpr std::size_t kTagAt = 4;
constexpr std::size_t kNumberAt = 8;
constexpr std::size_t kLengthAt = 24;

constexpr std::size_t kMostCulprits = 1024;

}  // namespace

std::string Note::encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(kVersion);
  out.number(from);
  out.number(to);
  out.number(static_cast<std::uint32_t>(purpose));
  return bytes;
}

std::optional<Note> Note::decode(std::string_view bytes) noexcept {
  ByteReader in(bytes);
  const auto version = in.number<std::uint32_t>();
  const auto from = in.number<std::uint32_t>();
  const auto to = in.number<std::uint32_t>();
  const auto purpose = in.number<std::uint32_t>();
  if (!version || !from || !to || !purpose || *version != kVersion ||
      *purpose < static_cast<std::uint32_t>(Purpose::LINK) ||
      *purpose > static_cast<std::uint32_t>(Purpose::MAIL) || !in.rest().empty()) {
    return std::nullopt;
  }
  return Note{.from = *from, .to = *to, .purpose = static_cast<Purpose>(*purpose)};
}

void Frame::encode(Bytes& into) const noexcept {
  into.fill(std::byte{0});
  put(into, kKindAt, kind);
  put(into, kOpTypeAt, call.opType);
  put(into, kDtypeAt, call.dtype);
  put(into, kReduceOpAt, call.reduceOp);
  put(into, kSignatureAt, call.signature);
  put(into, kSeqAt, seq);
  put(into, kBytesAt, bytes);
  put(into, kCountAt, call.count);
  put(into, kRootAt, call.root);
  put(into, kAlgorithmAt, call.algorithm);
}

std::optional<Frame> Frame::decode(const Bytes& bytes) noexcept {
  const auto kind = get<std::uint8_t>(bytes, kKindAt);
  if (kind < static_cast<std::uint8_t>(Kind::DATA) || kind > static_cast<std::uint8_t>(Kind::BYE)) {
    return std::nullopt;
  }
  return Frame{.kind = static_cast<Kind>(kind),
               .seq = get<std::uint64_t>(bytes, kSeqAt),
               .bytes = get<std::uint64_t>(bytes, kBytesAt),
               .call = {.signature = get<std::uint32_t>(bytes, kSignatureAt),
                        .opType = get<std::uint8_t>(bytes, kOpTypeAt),
                        .dtype = get<std::uint8_t>(bytes, kDtypeAt),
                        .reduceOp = get<std::uint8_t>(bytes, kReduceOpAt),
                        .algorithm = get<std::uint8_t>(bytes, kAlgorithmAt),
                        .root = get<std::int32_t>(bytes, kRootAt),
                        .count = get<std::uint64_t>(bytes, kCountAt)}};
}

void MailHead::encode(Frame::Bytes& into) const noexcept {
  into.fill(std::byte{0});
  put(into, kKindAt, kind);
  put(into, kTagAt, tag);
  put(into, kNumberAt, number);
  put(into, kBytesAt, bytes);
  put(into, kLengthAt, length);
}

std::optional<MailHead> MailHead::decode(const Frame::Bytes& bytes) noexcept {
  const auto kind = get<std::uint8_t>(bytes, kKindAt);
  if (kind < static_cast<std::uint8_t>(Kind::MESSAGE) ||
      kind > static_cast<std::uint8_t>(Kind::CREDIT)) {
    return std::nullopt;
  }
  const MailHead head{.kind = static_cast<Kind>(kind),
                      .tag = get<std::int32_t>(bytes, kTagAt),
                      .number = get<std::uint64_t>(bytes, kNumberAt),
                      .bytes = get<std::uint64_t>(bytes, kBytesAt),
                      .length = get<std::uint64_t>(bytes, kLengthAt)};
  const bool isLong = head.kind != Kind::MESSAGE && head.kind != Kind::PART;
  const bool fits = isLong ? head.bytes == 0 : head.kind == Kind::PART || head.bytes == head.length;
  return fits && head.tag >= 0 ? std::optional(head) : std::nullopt;
}

std::string encodeCause(const AbortCause& cause) {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(static_cast<std::uint32_t>(cause.reason));
  out.number(static_cast<std::int32_t>(cause.reporter));
  out.number(cause.seq);
  const std::size_t culprits = std::min(cause.culprits.size(), kMostCulprits / 4);
  out.number(static_cast<std::uint32_t>(culprits));
  for (std::size_t i = 0; i < culprits; ++i) {
    out.number(static_cast<std::int32_t>(cause.culprits[i]));
  }
  out.blob(std::string_view(cause.text).substr(0, kLongestCause / 2));
  return bytes;
}

std::optional<AbortCause> decodeCause(std::string_view bytes) {
  ByteReader in(bytes);
  const auto reason = in.number<std::uint32_t>();
  const auto reporter = in.number<std::int32_t>();
  const auto seq = in.number<std::uint64_t>();
  const auto culprits = in.number<std::uint32_t>();
  if (!reason || !reporter || !seq || !culprits ||
      *reason > static_cast<std::uint32_t>(Reason::USAGE) || *culprits > kMostCulprits) {
    return std::nullopt;
  }
  AbortCause cause{
      .reason = static_cast<Reason>(*reason), .reporter = *reporter, .seq = *seq, .text = {}};
  for (std::uint32_t i = 0; i < *culprits; ++i) {
    const auto rank = in.number<std::int32_t>();
    if (!rank) {
      return std::nullopt;
    }
    cause.culprits.push_back(*rank);
  }
  const auto text = in.blob();
  if (!text || !in.rest().empty()) {
    return std::nullopt;
  }
  cause.text = *text;
  return cause;
}

std::string Report::encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(static_cast<std::uint32_t>(state));
  out.number(seq);
  out.blob(cause ? encodeCause(*cause) : std::string());
  out.number(static_cast<std::uint32_t>(calls.size()));
  Frame::Bytes head;
  for (const Frame& call : calls) {
    call.encode(head);
    bytes.append(reinterpret_cast<const char*>(head.data()), head.size());
  }
  return bytes;
}

std::optional<Report> Report::decode(std::string_view bytes) {
  ByteReader in(bytes);
  const auto state = in.number<std::uint32_t>();
  const auto seq = in.number<std::uint64_t>();
  const auto cause = in.blob();
  if (!state || !seq || !cause || *state < static_cast<std::uint32_t>(State::LIVE) ||
      *state > static_cast<std::uint32_t>(State::UNKNOWN)) {
    return std::nullopt;
  }
  Report report{.state = static_cast<State>(*state), .seq = *seq};
  if (!cause->empty()) {
    report.cause = decodeCause(*cause);
    if (!report.cause) {
      return std::nullopt;
    }
  }
  const auto count = in.number<std::uint32_t>();
  std::string_view rest = in.rest();
  if (!count || rest.size() != *count * Frame::kSize) {
    return std::nullopt;
  }
  for (; !rest.empty(); rest.remove_prefix(Frame::kSize)) {
    Frame::Bytes head;
    std::memcpy(head.data(), rest.data(), head.size());
    const auto call = Frame::decode(head);
    if (!call) {
      return std::nullopt;
    }
    report.calls.push_back(*call);
  }
  return report;
}

}  // namespace unisono::mesh
