// The bytes of a card: docs/wire/tcp_link.md.
#include "base/bytes.hpp"
#include "transport/mesh/roster.hpp"

namespace unisono::mesh {
namespace {

constexpr std::uint32_t kCardVersion = 2;
// More than a host has at the interfaces that somebody names.
constexpr std::uint32_t kMostAddresses = 256;

}  // namespace

std::string Member::encode() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(kCardVersion);
  for (const std::string* field : {&host, &process, &settings}) {
    out.blob(*field);
  }
  out.number(static_cast<std::uint32_t>(addresses.size()));
  for (const HostPort& each : addresses) {
    out.blob(each.host);
    out.number(each.port);
  }
  return bytes;
}

std::optional<Member> Member::decode(std::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.number<std::uint32_t>();
  const auto host = in.blob();
  const auto process = in.blob();
  const auto settings = in.blob();
  const auto count = in.number<std::uint32_t>();
  if (!version || !host || !process || !settings || !count || *version != kCardVersion ||
      *count > kMostAddresses) {
    return std::nullopt;
  }
  Member member{.host = std::string(*host),
                .process = std::string(*process),
                .settings = std::string(*settings)};
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto address = in.blob();
    const auto port = in.number<std::uint16_t>();
    if (!address || !port) {
      return std::nullopt;
    }
    member.addresses.push_back({std::string(*address), *port});
  }
  return in.rest().empty() ? std::optional(std::move(member)) : std::nullopt;
}

}  // namespace unisono::mesh
