#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "base/fd.hpp"
#include "base/host.hpp"
#include "base/str.hpp"
#include "doctor_checks.hpp"
#include "launch/binding.hpp"
#include "reduction/instruction_set.hpp"

namespace unisono::cli {

using enum Finding::State;

Finding lookAtVectors(const Patient& /*patient*/) {
  const std::string best = instructionSets().front();
  return best == "EMU128" || best == "SCALAR"
             ? Finding{WARN, "reductions use no vector instructions",
                       "use a processor, or a machine for it, that has SSE4, NEON or better"}
             : Finding{OK, str("reductions use ", best)};
}

Finding lookAtMemoryNodes(const Patient& patient) {
  const int nodes =
      launch::nodeCount(launch::coresOfHost(patient.root + "/sys/devices/system/cpu"));
  return {OK, nodes == 1 ? "one for all cores"
                         : str(nodes, "; run --numa-binding keeps ranks at theirs")};
}

/// By which a rank learns at once that another has died.
Finding lookAtProcessHandles(const Patient& /*patient*/) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return handle.valid() ? Finding{OK, "the end of a rank is noticed at once"}
                        : Finding{WARN, str("pidfd_open is denied: ", errnoText(errno)),
                                  "let the container's seccomp profile allow it"};
}

Finding lookAtThreads(const Patient& /*patient*/) {
  const char* given = std::getenv("OMP_NUM_THREADS");
  if (given == nullptr) {
    return {OK, "OMP_NUM_THREADS is not set; unisono run shares the cores among ranks"};
  }
  const std::string_view text = given;
  int count = 0;
  const bool isNumber =
      std::from_chars(text.data(), text.data() + text.size(), count).ec == std::errc();
  const std::string what = str("OMP_NUM_THREADS=", text);
  return isNumber && count > usableCores()
             ? Finding{WARN, str(what, ", more than the ", usableCores(), " cores there are"),
                       "unset it, or set it to cores by ranks"}
             : Finding{OK, what};
}

Finding lookAtIpv6(const Patient& /*patient*/) {
  const UniqueFd made(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool works = made.valid() && ::bind(made.get(), reinterpret_cast<const sockaddr*>(&address),
                                            sizeof address) == 0;
  return {OK, works ? "can be used" : "is off; addresses of IPv4 are used"};
}

Finding lookAtProxies(const Patient& /*patient*/) {
  std::vector<std::string> set;
  for (const char* name :
       {"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}) {
    if (std::getenv(name) != nullptr) {
      set.emplace_back(name);
    }
  }
  return {OK, set.empty() ? "none is set"
                          : str(join(set, ", "), ": not used; ranks and stores connect directly")};
}

}  // namespace unisono::cli
