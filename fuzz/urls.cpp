// URLs, endpoints and addresses as users might write them.
#include <string>

#include "unisono/base/error.hpp"
#include "unisono/store/rendezvous.hpp"

#include "fuzz/check.hpp"
#include "net/address.hpp"
#include "store/endpoint.hpp"
#include "store/rendezvous_schemes.hpp"

namespace {

using namespace unisono;

/// Runs `parse`; a refusal must be one line.
template <typename Parse>
void tolerate(Parse parse) {
  try {
    parse();
  } catch (const DistError& error) {
    FUZZ_EXPECT(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  tolerate([&] { static_cast<void>(parseRendezvousUrl(text)); });
  tolerate([&] { static_cast<void>(parseWhole("a number", text)); });
  tolerate([&] {
    const Endpoint place = parseEndpoint(text);
    FUZZ_EXPECT(place.file.empty() != place.host.empty());  // a server or a file
  });
  tolerate([&] {
    const HostPort place = parseHostPort(text);
    const HostPort again = parseHostPort(place.text());
    FUZZ_EXPECT(again.host == place.host && again.port == place.port);
  });
  if (const auto address = SocketAddress::parse(text, 1)) {
    FUZZ_EXPECT(!address->text().empty());
  }
  return 0;
}
