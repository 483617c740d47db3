#include "support/netlab.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

#include "base/str.hpp"

namespace unisono::test {
namespace {

constexpr const char* kMine = "/proc/thread-self/ns/net";

/// Puts the calling thread back to where it was.
class Return {
 public:
  Return() : home_(Namespace::here()) {}
  ~Return() {
    try {
      home_.enter();
    } catch (const std::exception&) {
      std::abort();  // what follows would be tested somewhere else
    }
  }
  Return(const Return&) = delete;
  Return& operator=(const Return&) = delete;

 private:
  const Namespace home_;
};

void run(const Namespace& where, const std::string& command) {
  const Return back;
  where.enter();
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error(str("'", command, "' has failed"));
  }
}

std::string port(int host) {
  return str("port", host);
}

}  // namespace

Namespace Namespace::here() {
  const int fd = ::open(kMine, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    throw std::runtime_error(str(kMine, ": ", errnoDetail(errno)));
  }
  return Namespace(fd);
}

Namespace Namespace::make() {
  const Return back;
  if (::unshare(CLONE_NEWNET) != 0) {
    throw std::runtime_error(str("unshare: ", errnoDetail(errno)));
  }
  return here();
}

Namespace::~Namespace() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void Namespace::enter() const {
  if (::setns(fd_, CLONE_NEWNET) != 0) {
    throw std::runtime_error(str("setns: ", errnoDetail(errno)));
  }
}

std::string Namespace::path() const {
  return str("/proc/", ::getpid(), "/fd/", fd_);
}

std::string Netlab::whyNot() {
  if (std::system("ip -V >/dev/null 2>&1 && tc -V >/dev/null 2>&1") != 0) {
    return "the programs ip and tc (iproute2) are not there";
  }
  try {
    const Netlab lab(1);
    lab.limit(0, 100);
    return "";
  } catch (const std::runtime_error& error) {
    return str("no network can be made here: ", error.what());
  }
}

Netlab::Netlab(int hosts) {
  run(switch_, "ip link add bridge type bridge forward_delay 0 mcast_snooping 0");
  run(switch_, "ip link set bridge up");
  for (int host = 0; host < hosts; ++host) {
    hosts_.push_back(Namespace::make());
    run(switch_,
        str("ip link add ", port(host), " type veth peer name eth0 netns ", hosts_.back().path()));
    run(switch_, str("ip link set ", port(host), " master bridge up"));
    run(at(host), str("ip address add ", address(host), "/24 dev eth0"));
    run(at(host), "ip link set lo up");
    run(at(host), "ip link set eth0 up");
  }
}

std::string Netlab::address(int host) {
  return str("10.77.0.", host + 1);
}

void Netlab::enter(int host) const {
  at(host).enter();
}

void Netlab::cut(int host) const {
  run(switch_, str("ip link set ", port(host), " nomaster"));
}

void Netlab::heal(int host) const {
  run(switch_, str("ip link set ", port(host), " master bridge"));
}

void Netlab::loseWay(int from, int to) const {
  // To a card that nobody has.
  run(at(from), str("ip neighbour replace ", address(to),
                    " lladdr 02:00:00:00:00:99 nud permanent dev eth0"));
}

void Netlab::limit(int host, int megabitsPerSecond) const {
  run(at(host), str("tc qdisc replace dev eth0 root tbf rate ", megabitsPerSecond,
                    "mbit burst 64kb latency 50ms"));
}

void Netlab::lose(int host) const {
  // A queue of four packets.
  run(at(host), "tc qdisc replace dev eth0 root tbf rate 200mbit burst 5kb limit 6kb");
}

long Netlab::sentAgain(int host) const {
  const Return back;
  at(host).enter();
  std::ifstream table("/proc/thread-self/net/snmp");
  std::string names;
  std::string values;
  while (std::getline(table, names) && std::getline(table, values)) {
    std::istringstream name(names);
    std::istringstream value(values);
    std::string each;
    for (std::string number; name >> each && value >> number;) {
      if (names.starts_with("Tcp:") && each == "RetransSegs") {
        return std::stol(number);
      }
    }
  }
  throw std::runtime_error("the kernel does not tell what it has sent again");
}

}  // namespace unisono::test
