#include "net/accept.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace unisono {
namespace {

AcceptStatus classify(int error) noexcept {
  switch (error) {
    case EAGAIN:
      return AcceptStatus::NOTHING;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return AcceptStatus::EXHAUSTED;
    case EBADF:
    case EFAULT:
    case EINVAL:
    case ENOTSOCK:
      return AcceptStatus::FAILED;
    default:  // ECONNABORTED, EPROTO, EPERM by a firewall, and what else the network reports
      return AcceptStatus::TRANSIENT;
  }
}

}  // namespace

AcceptResult acceptOne(int listenFd) noexcept {
  sockaddr_storage peer{};
  for (;;) {
    socklen_t size = sizeof peer;
    const int fd = ::accept4(listenFd, reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      return {.status = AcceptStatus::GOT,
              .fd = UniqueFd(fd),
              .peer = SocketAddress(reinterpret_cast<const sockaddr*>(&peer), size)};
    }
    if (errno != EINTR) {
      const AcceptStatus status = classify(errno);
      return {.status = status, .error = status == AcceptStatus::NOTHING ? 0 : errno};
    }
  }
}

bool ReserveFd::shed(int listenFd) noexcept {
  fd_.reset();
  const bool got = acceptOne(listenFd).status == AcceptStatus::GOT;  // and closed by its owner
  refill();
  return got;
}

void ReserveFd::refill() noexcept {
  fd_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void raiseDescriptorLimit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  }
}

}  // namespace unisono
