#include "transport/shm/root_record.hpp"

#include "base/bytes.hpp"

namespace unisono::shm {

std::string RootRecord::encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(version);
  out.number(size);
  for (const std::string* field : {&host, &process, &socket, &cookie}) {
    out.blob(*field);
  }
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
  if (!version || !size || !host || !process || !socket || !cookie) {
    return std::nullopt;
  }
  return RootRecord{*version,
                    *size,
                    std::string(*host),
                    std::string(*process),
                    std::string(*socket),
                    std::string(*cookie)};
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

}  // namespace unisono::shm
