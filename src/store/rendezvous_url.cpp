#include <algorithm>
#include <charconv>

#include "unisono/store/rendezvous.hpp"

#include "base/check.hpp"
#include "store/rendezvous_schemes.hpp"

namespace unisono {
namespace {

[[noreturn]] void refuseUrl(std::string_view url, std::string_view why) {
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("the URL ", url, " is not usable: ", why),
                    .hint = "write tcp://host:port?rank=0&world_size=2, "
                            "file:///path?rank=0&world_size=2 or env://"});
}

/// The value of two hexadecimal digits, or -1.
int hexByte(std::string_view digits) {
  int byte = -1;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, byte, 16);
  return error == std::errc() && stop == end && digits.size() == 2 && digits[0] != '-' ? byte : -1;
}

/// `text` with %41 written as A. A % that begins no such code stands for itself.
std::string decoded(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int byte = text[i] == '%' ? hexByte(text.substr(i + 1, 2)) : -1;
    plain += byte < 0 ? text[i] : static_cast<char>(byte);
    i += byte < 0 ? 0 : 2;
  }
  return plain;
}

/// Cuts `text` at the first `mark`; returns what is behind it, or nothing.
std::string_view splitOff(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view behind = text.substr(at + 1);
  text = text.substr(0, at);
  return behind;
}

int parsePort(std::string_view url, std::string_view text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error == std::errc::invalid_argument || stop != end) {
    refuseUrl(url, str("the port '", text, "' is not a number"));
  }
  if (error != std::errc() || port < 0 || port > 65535) {
    refuseUrl(url, str("port must have value from 0 to 65535 but was ", text, "."));
  }
  return port;
}

/// "host:port", "[v6]:port", or either without the port.
void parseAuthority(std::string_view text, std::string_view authority, RendezvousUrl& url) {
  if (authority.find('@') != std::string_view::npos) {
    refuseUrl(text, "a user name has no meaning here");
  }
  std::string_view port;
  if (authority.starts_with('[')) {
    std::string_view host = authority.substr(1);
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) {
      refuseUrl(text, "the bracket around the address is not closed");
    }
    port = host.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) {
      refuseUrl(text, "there is something between the address and the port");
    }
    port.remove_prefix(port.empty() ? 0 : 1);
    url.host = decoded(host.substr(0, end));
  } else {
    port = splitOff(authority, ':');
    if (port.find(':') != std::string_view::npos) {
      refuseUrl(text, "an IPv6 address must be in brackets, as in tcp://[::1]:29500");
    }
    url.host = decoded(authority);
  }
  if (!port.empty()) {
    url.port = parsePort(text, port);
  }
}

void parseQuery(std::string_view text, std::string_view query, RendezvousUrl& url) {
  while (!query.empty()) {
    std::string_view name = query;
    query = splitOff(name, '&');
    if (name.empty()) {
      continue;
    }
    if (name.find('=') == std::string_view::npos) {
      refuseUrl(text, str("the parameter '", name, "' has no value"));
    }
    const std::string_view value = splitOff(name, '=');
    if (!url.query.emplace(decoded(name), decoded(value)).second) {
      refuseUrl(text, str("the parameter '", name, "' is given twice"));
    }
  }
}

}  // namespace

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return result;
}

RendezvousUrl parseRendezvousUrl(std::string_view text) {
  const std::size_t schemeEnd = text.find("://");
  if (schemeEnd == std::string_view::npos || schemeEnd == 0) {
    refuseUrl(text, "it does not begin with a scheme such as tcp://");
  }
  RendezvousUrl url;
  url.scheme = lowered(text.substr(0, schemeEnd));  // written in any case, as in all URLs
  std::string_view rest = text.substr(schemeEnd + 3);
  splitOff(rest, '#');
  const std::string_view query = splitOff(rest, '?');
  const std::size_t authorityEnd = std::min(rest.find('/'), rest.size());
  parseAuthority(text, rest.substr(0, authorityEnd), url);
  url.path = decoded(rest.substr(authorityEnd));
  parseQuery(text, query, url);
  return url;
}

}  // namespace unisono
