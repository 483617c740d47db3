#include "net/port_owner.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <unordered_set>

#include "base/str.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListening = "0A";  // the state as /proc/net/tcp writes it

/// `value` in hexadecimal with leading zeros, as /proc writes it.
template <typename Number>
std::string upperHex(Number value) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (int shift = 8 * static_cast<int>(sizeof value) - 4; shift >= 0; shift -= 4) {
    text += kDigits[(value >> shift) & 0xFU];
  }
  return text;
}

/// The address as /proc/net/tcp writes it: words of the machine, in hexadecimal.
std::string procHex(const SocketAddress& address) {
  const bool isV6 = address.family() == AF_INET6;
  const std::size_t offset =
      isV6 ? offsetof(sockaddr_in6, sin6_addr) : offsetof(sockaddr_in, sin_addr);
  std::string hex;
  for (std::size_t word = 0; word < (isV6 ? 4U : 1U); ++word) {
    std::uint32_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(address.raw()) + offset + 4 * word, 4);
    hex += upperHex(value);
  }
  return hex;
}

bool isZero(std::string_view hex) noexcept {
  return hex.find_first_not_of('0') == std::string_view::npos;
}

/// The sockets that stand in the way of an address, as links below /proc/PID/fd name them.
struct Rivals {
  std::unordered_set<std::string> listening;
  std::unordered_set<std::string> others;  // such as a client that was given the port
};

void findRivals(const char* file, const SocketAddress& address, Rivals& rivals) {
  const std::string wanted = procHex(address);
  const std::string portEnd = str(":", upperHex(address.port()));
  std::ifstream table(file);
  std::string line;
  std::getline(table, line);  // the headings
  while (std::getline(table, line)) {
    // The table may have ten thousands of lines: most are passed over without being taken apart.
    if (line.find(portEnd) == std::string::npos) {
      continue;
    }
    std::string slot, local, remote, state, queues, timer, retries, uid, timeout, inode;
    std::istringstream(line) >> slot >> local >> remote >> state >> queues >> timer >> retries >>
        uid >> timeout >> inode;
    const std::string_view host = std::string_view(local).substr(0, local.find(':'));
    const bool inTheWay = host == wanted || isZero(host) || address.isWildcard();
    if (local.ends_with(portEnd) && inode != "0" && inTheWay) {
      (state == kListening ? rivals.listening : rivals.others).insert(str("socket:[", inode, "]"));
    }
  }
}

/// The user of the socket at `local` that is connected to `remote`; nothing when no process has it.
std::optional<uid_t> userOf(std::istream& table, const SocketAddress& local,
                            const SocketAddress& remote) {
  const std::string near = str(procHex(local), ":", upperHex(local.port()));
  const std::string far = str(procHex(remote), ":", upperHex(remote.port()));
  std::string line;
  while (std::getline(table, line)) {
    if (line.find(near) == std::string::npos) {
      continue;
    }
    std::string slot, ours, theirs, state, queues, timer, retries, timeout, inode;
    uid_t uid = 0;
    std::istringstream(line) >> slot >> ours >> theirs >> state >> queues >> timer >> retries >>
        uid >> timeout >> inode;
    // One of IPv4 may be written as an address of IPv6, with more in front. A socket that has been
    // closed has no inode, and the user 0 whoever had it.
    if (ours.ends_with(near) && theirs.ends_with(far) && inode != "0") {
      return uid;
    }
  }
  return std::nullopt;
}

bool hasOpen(const fs::path& process, const std::unordered_set<std::string>& links) {
  std::error_code ignored;
  for (fs::directory_iterator entry(process / "fd", ignored), end; entry != end;
       entry.increment(ignored)) {
    if (links.contains(fs::read_symlink(entry->path(), ignored).native())) {
      return true;
    }
  }
  return false;
}

std::string ownerOf(const std::unordered_set<std::string>& links) {
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string pid = entry->path().filename();
    if (pid.find_first_not_of("0123456789") == std::string::npos && hasOpen(entry->path(), links)) {
      std::string command;
      std::ifstream(entry->path() / "comm") >> command;
      return str("in use by pid ", pid, " (", command, ")");
    }
  }
  return "";
}

}  // namespace

std::string portOwner(const SocketAddress& address) noexcept {
  try {
    Rivals rivals;
    for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      findRivals(file, address, rivals);
    }
    const auto& links = rivals.listening.empty() ? rivals.others : rivals.listening;
    return links.empty() ? "" : ownerOf(links);
  } catch (const std::exception&) {
    // Only a remark in an error that is reported anyway.
  }
  return "";
}

bool isOfAnotherUser(int fd) noexcept {
  try {
    const SocketAddress here = SocketAddress::localOf(fd);
    const SocketAddress there = SocketAddress::peerOf(fd);
    for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      std::ifstream table(file);
      if (!table && here.family() == (std::string_view(file).ends_with('6') ? AF_INET6 : AF_INET)) {
        return false;
      }
      if (const std::optional<uid_t> user = userOf(table, there, here)) {
        return *user != 0 && *user != ::geteuid();
      }
    }
  } catch (const std::exception&) {
    // No memory: nobody is let in whom nothing is known about.
  }
  return true;
}

}  // namespace unisono
