#include "net/local_socket.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

#include "base/random.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"

namespace unisono {
namespace {

// All processes of a host connect to one of them at about the same time.
constexpr int kLocalBacklog = 4096;

struct Address {
  sockaddr_un raw{};
  socklen_t size = 0;
};

/// A name that begins with a zero byte is abstract.
Address abstractAddress(std::string_view name) {
  Address address;
  address.raw.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.raw.sun_path - 1);
  std::memcpy(address.raw.sun_path + 1, name.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

UniqueFd makeSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool isDenial(int error) noexcept {
  return error == EPERM || error == EACCES || error == EAFNOSUPPORT || error == EPROTONOSUPPORT;
}

Status failure(std::string_view what, int error) {
  return {error == EMFILE || error == ENFILE || error == ENOMEM ? Reason::RESOURCE
                                                                : Reason::PEER_UNREACHABLE,
          str(what, ": ", std::system_category().message(error))};
}

ucred credentialsOf(int fd) noexcept {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    credentials = {.pid = -1, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  }
  return credentials;
}

bool isOurUser(int fd) noexcept {
  return credentialsOf(fd).uid == ::geteuid();
}

/// Repeats `attempt` until it does something other than EAGAIN; its last errno, 0 for success.
template <typename Attempt>
int persist(int fd, short events, Deadline deadline, Attempt attempt) {
  int error = EAGAIN;
  const WaitContext context{.deadline = deadline, .subject = {}};
  FdWaitable on(fd, events);
  const bool over = waitUntil(
      [&] {
        error = attempt() ? 0 : errno;
        return error != EAGAIN && error != EINTR;
      },
      context, on);
  return over ? error : ETIMEDOUT;
}

/// Takes the descriptor out of `header`; more than one, or a cut one, is no message of ours.
bool takeDescriptor(msghdr& header, UniqueFd& fd) {
  bool good = (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      UniqueFd received(number);
      good = good && !fd.valid();
      fd = fd.valid() ? std::move(fd) : std::move(received);
    }
  }
  return good;
}

}  // namespace

bool areLocalSocketsDenied() noexcept {
  const UniqueFd attempt = makeSocket();
  if (!attempt.valid()) {
    return isDenial(errno);
  }
  // A name that the kernel makes up: abstract, and nobody's.
  sockaddr_un none{};
  none.sun_family = AF_UNIX;
  return ::bind(attempt.get(), reinterpret_cast<const sockaddr*>(&none), sizeof(sa_family_t)) !=
             0 &&
         isDenial(errno);
}

Result<LocalSocket> LocalSocket::connect(std::string_view name, Deadline deadline) {
  UniqueFd fd = makeSocket();
  if (!fd.valid()) {
    return failure("making a local socket", errno);
  }
  const Address address = abstractAddress(name);
  // A full backlog gives EAGAIN, which poll() does not report: ask again every millisecond.
  int error = EAGAIN;
  TimerWaitable timer{Milliseconds(1)};
  const bool over = waitUntil(
      [&] {
        const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
        error = ::connect(fd.get(), raw, address.size) == 0 ? 0 : errno;
        return error != EAGAIN && error != EINTR;
      },
      {.deadline = deadline, .subject = {}}, timer);
  error = over ? error : ETIMEDOUT;
  if (error != 0) {
    return failure(str("connecting to the local socket '", name, "'"), error);
  }
  if (!isOurUser(fd.get())) {
    return Status(Reason::AUTH_FAILED, str("the local socket '", name, "' is another user's"));
  }
  return LocalSocket(std::move(fd));
}

Status LocalSocket::send(std::string_view bytes, int fd, Deadline deadline) {
  UNISONO_DCHECK(bytes.size() <= kLongestLocalMessage);
  iovec data{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = space.data();
    header.msg_controllen = space.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  const int error = persist(fd_.get(), POLLOUT, deadline,
                            [&] { return ::sendmsg(fd_.get(), &header, MSG_NOSIGNAL) >= 0; });
  return error == 0 ? Status::ok() : failure("sending to a process of this host", error);
}

Result<LocalMessage> LocalSocket::receive(Deadline deadline) {
  LocalMessage message;
  message.bytes.resize(kLongestLocalMessage);
  iovec data{.iov_base = message.bytes.data(), .iov_len = message.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  ssize_t count = -1;
  const int error = persist(fd_.get(), POLLIN, deadline, [&] {
    count = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
    if (count == 0 && header.msg_controllen == 0) {
      // The kernel looks for a message and then for the end: one that was sent between the two
      // looks, just before the end, is still there.
      header.msg_controllen = space.size();
      count = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
    }
    return count >= 0;
  });
  if (error != 0) {
    return failure("receiving from a process of this host", error);
  }
  const bool good = takeDescriptor(header, message.fd);
  if ((header.msg_flags & MSG_CTRUNC) != 0 && !message.fd.valid()) {
    // There is room for more descriptors than any message of ours has: it is this process that
    // cannot have another one.
    return failure("receiving a descriptor", EMFILE);
  }
  if (count == 0 && !message.fd.valid()) {
    return Status(Reason::PEER_LEFT, "the process at the other end has closed the connection");
  }
  if (!good) {
    return Status(Reason::PROTOCOL, "a message too long, or with too many descriptors");
  }
  message.bytes.resize(static_cast<std::size_t>(count));
  return message;
}

pid_t LocalSocket::peerPid() const noexcept {
  return credentialsOf(fd_.get()).pid;
}

LocalListener::LocalListener() : name_(str("unisono/", randomId())), fd_(makeSocket()) {
  const Address address = abstractAddress(name_);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  if (!fd_.valid() || ::bind(fd_.get(), raw, address.size) != 0 ||
      ::listen(fd_.get(), kLocalBacklog) != 0) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("no local socket: ", std::system_category().message(errno)),
                     .hint = "raise the limit of open descriptors (ulimit -n)"});
  }
}

std::optional<LocalSocket> LocalListener::accept() {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  starved_ =
      !fd.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
  if (!fd.valid() || !isOurUser(fd.get())) {
    return std::nullopt;
  }
  return LocalSocket(std::move(fd));
}

}  // namespace unisono
