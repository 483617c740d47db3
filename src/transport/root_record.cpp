#include "transport/root_record.hpp"

#include "base/bytes.hpp"

namespace unisono {
namespace {

bool isReason(std::optional<std::uint32_t> number) noexcept {
  return number && *number <= static_cast<std::uint32_t>(Reason::USAGE);
}

}  // namespace

std::string RootRecord::encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(version);
  out.number(size);
  for (const std::string* field : {&host, &process, &socket, &cookie}) {
    out.blob(*field);
  }
  out.number(static_cast<std::uint32_t>(reason));
  out.blob(refusal);
  return bytes;
}

std::optional<RootRecord> RootRecord::decode(std::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.number<std::uint32_t>();
  const auto size = in.number<std::uint32_t>();
  const auto host = in.blob();
  const auto process = in.blob();
  const auto socket = in.blob();
  const auto cookie = in.blob();
  const auto reason = in.number<std::uint32_t>();
  const auto refusal = in.blob();
  if (!version || !size || !host || !process || !socket || !cookie || !isReason(reason) ||
      !refusal) {
    return std::nullopt;
  }
  return RootRecord{*version,
                    *size,
                    std::string(*host),
                    std::string(*process),
                    std::string(*socket),
                    std::string(*cookie),
                    static_cast<Reason>(*reason),
                    std::string(*refusal)};
}

std::string Decline::encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(rank);
  out.number(static_cast<std::uint32_t>(reason));
  out.blob(text);
  return bytes;
}

std::optional<Decline> Decline::decode(std::string_view bytes) {
  ByteReader in(bytes);
  const auto rank = in.number<std::uint32_t>();
  const auto reason = in.number<std::uint32_t>();
  const auto text = in.blob();
  if (!rank || !isReason(reason) || !text) {
    return std::nullopt;
  }
  return Decline{*rank, static_cast<Reason>(*reason), std::string(*text)};
}

std::string JoinRequest::encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(version);
  out.number(size);
  out.number(rank);
  out.blob(settings);
  out.blob(process);
  return bytes;
}

std::optional<JoinRequest> JoinRequest::decode(std::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.number<std::uint32_t>();
  const auto size = in.number<std::uint32_t>();
  const auto rank = in.number<std::uint32_t>();
  const auto settings = in.blob();
  const auto process = in.blob();
  if (!version || !size || !rank || !settings || !process) {
    return std::nullopt;
  }
  return JoinRequest{*version, *size, *rank, std::string(*settings), std::string(*process)};
}

}  // namespace unisono
