#include "net/resolve.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <new>
#include <utility>

#include "base/mutex.hpp"
#include "base/str.hpp"
#include "base/thread.hpp"
#include "base/wait.hpp"

namespace unisono {
namespace {

/// One question to the resolver. Shared with the thread that asks, which may outlive the asker.
struct Lookup {
  Mutex mutex;
  CondVar answered;
  bool done UNISONO_GUARDED_BY(mutex) = false;
  std::string problem UNISONO_GUARDED_BY(mutex);
  std::vector<SocketAddress> found UNISONO_GUARDED_BY(mutex);
};

std::string askSystem(const std::string& host, std::vector<SocketAddress>& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return error == EAI_SYSTEM ? errnoDetail(errno) : ::gai_strerror(error);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    found.emplace_back(entry->ai_addr, entry->ai_addrlen);
  }
  return found.empty() ? "it has no address" : "";
}

bool isLocalhost(std::string_view host) noexcept {
  return host == "localhost" || host == "localhost.";
}

std::vector<SocketAddress> distinct(const std::vector<SocketAddress>& found, std::uint16_t port) {
  std::vector<SocketAddress> kept;
  for (const SocketAddress& address : found) {
    const SocketAddress candidate = address.withPort(port);
    if (std::find(kept.begin(), kept.end(), candidate) == kept.end()) {
      kept.push_back(candidate);
    }
  }
  return kept;
}

/// What the asking thread runs.
void ask(Lookup& lookup, detail::ResolverCall call, const std::string& host) noexcept {
  std::vector<SocketAddress> found;
  std::string problem;
  try {
    problem = call(host, found);
  } catch (const std::bad_alloc&) {
    problem = "no memory";
  }
  const MutexLock lock(lookup.mutex);
  lookup.problem = std::move(problem);
  lookup.found = std::move(found);
  lookup.done = true;
  lookup.answered.notifyAll();
}

}  // namespace

namespace detail {

Result<std::vector<SocketAddress>> resolveWith(ResolverCall call, const std::string& host,
                                               std::uint16_t port, Deadline deadline) {
  const auto lookup = std::make_shared<Lookup>();
  try {
    Thread("unisono-resolve", [lookup, call, host] { ask(*lookup, call, host); }).detach();
  } catch (const DistError& error) {
    return Status(error.reason(), error.facts().what);
  }

  const MutexLock lock(lookup->mutex);
  CondWaitable answered(lookup->answered, lookup->mutex);
  const WaitContext context{.deadline = deadline,
                            .subject = [&] { return str("the resolver to find '", host, "'"); }};
  // The wait looks while the lock is held, which the analysis cannot see through the lambda.
  const auto isDone = [&]() UNISONO_NO_ANALYSIS { return lookup->done; };
  if (!waitUntil(isDone, context, answered)) {
    return Status(Reason::TIMEOUT, "the resolver has not answered");
  }
  if (!lookup->problem.empty()) {
    return Status(Reason::CONFIG, lookup->problem);
  }
  return distinct(lookup->found, port);
}

}  // namespace detail

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                           Deadline deadline) {
  if (host.empty()) {
    return Status(Reason::USAGE, "the host name is empty");
  }
  if (const auto literal = SocketAddress::parse(host, port)) {
    return std::vector{*literal};
  }
  if (host.find_first_of(":[]%/ ") != std::string::npos) {
    return Status(Reason::USAGE, "it is neither a name nor a valid address");
  }
  if (isLocalhost(host)) {
    // Always loopback, whatever a hosts file says, and both families where it names only one.
    return std::vector{SocketAddress::loopback(AF_INET, port),
                       SocketAddress::loopback(AF_INET6, port)};
  }
  return detail::resolveWith(askSystem, host, port, deadline);
}

}  // namespace unisono
