#include "launch/meeting.hpp"

#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "base/str.hpp"
#include "base/thread.hpp"
#include "base/wait.hpp"
#include "launch/relay.hpp"
#include "net/resolve.hpp"
#include "net/retry.hpp"
#include "store/common.hpp"
#include "store/tcp/dial.hpp"
#include "store/tcp/entrance.hpp"
#include "store/tcp/server.hpp"

namespace unisono::launch {
namespace {

constexpr std::size_t kSecretBytes = 32;

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());  // a longer one would leave copies behind as it grows
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xFU];
  }
  return text;
}

/// Of a file that nobody else may read, not even for a moment.
void writeSecret(const std::string& path, std::string_view secret) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid() ||
      ::write(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    throw DistError(
        {.reason = Reason::RESOURCE,
         .what = str("cannot write the secret of the job to ", path, ": ", errnoText(errno)),
         .hint = "give another folder with --log-dir"});
  }
}

/// The host at which a relay may listen: that of the user if it is on loopback.
std::string loopbackOf(const std::string& host) {
  const auto address = SocketAddress::parse(host, 0);
  return address && address->isLoopback() ? host : host == "localhost" ? host : "127.0.0.1";
}

/// The address of this host at which others reach it; empty when only it itself does.
std::string outside(const SocketAddress& address) {
  return address.isInternet() && !address.isLoopback() && !address.isWildcard() ? address.hostText()
                                                                                : "";
}

/// The address of this host from which packets go to `target`, once a name has one; none is sent.
SocketAddress routeTo(const HostPort& target, Deadline deadline) {
  SocketAddress own;
  SeededRng rng(randomSeed());
  Backoff backoff(rng);
  const WaitContext wait{.deadline = deadline, .subject = [&] {
                           return str("an address of the host '", printable(target.host), "'");
                         }};
  static_cast<void>(retryUntil(
      [&] {
        const auto found = resolve(target.host, target.port, deadline);
        if (!found.isOk()) {
          return found.failure().reason() == Reason::USAGE;  // which connecting will tell
        }
        for (const SocketAddress& address : found.value()) {
          const UniqueFd probe(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
          if (probe.valid() && ::connect(probe.get(), address.raw(), address.size()) == 0) {
            own = SocketAddress::localOf(probe.get());
            break;
          }
        }
        return true;
      },
      wait, backoff));
  return own;
}

}  // namespace

/// The way to the store of another node, looked for on a thread that nobody waits for.
class Meeting::Search {
 public:
  explicit Search(Relay& relay) : relay_(&relay) {}

  /// Connects to the store, which may not be up yet, and shows its address to the relay.
  void run(const HostPort& store, const Key& key) noexcept UNISONO_EXCLUDES(mutex_) {
    try {
      const auto connection = tcp::dial(store, key, tcp::Call("connect", {}, defaultTimeout()));
      const MutexLock lock(mutex_);
      if (relay_ != nullptr) {
        relay_->leadTo(connection->socket().peerAddress());
      }
    } catch (const DistAuthError&) {
      const MutexLock lock(mutex_);
      failure_ = std::current_exception();
    } catch (const std::exception& error) {
      // Ranks that need no store go on, as on node 0, which may have ended for that reason.
      UNISONO_LOG(WARN, "launch", error.what());
    }
  }

  /// The relay is about to go.
  void forget() UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    relay_ = nullptr;
  }

  void check() UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  Mutex mutex_;
  Relay* relay_ UNISONO_GUARDED_BY(mutex_);
  std::exception_ptr failure_ UNISONO_GUARDED_BY(mutex_);
};

Meeting::Meeting(const Job& job, const std::string& secretFile) : job_(job), key_(tcp::storeKey()) {
  const Deadline deadline = Deadline::after(defaultTimeout());
  if (job_.nodes == 1 && !key_) {
    makeSecret(secretFile);
  }
  places_ = {
      .master = job_.store, .store = job_.store, .secretFile = secretFile_, .ownAddress = {}};
  if (key_) {
    const bool alone = job_.nodes == 1;
    places_.master = {alone ? loopbackOf(job_.store.host) : "localhost",
                      alone ? job_.store.port : std::uint16_t{0}};
    relay_ = std::make_unique<Relay>(places_.master, *key_, deadline);
    places_.master.port = relay_->port();
  }
  if (job_.nodeRank == 0) {
    serve();
  } else if (key_) {
    search();
  }
}

Meeting::~Meeting() {
  if (search_) {
    search_->forget();
  }
  if (!secretFile_.empty()) {
    ::unlink(secretFile_.c_str());  // the folder may stay, with logs
  }
}

void Meeting::makeSecret(const std::string& path) {
  std::string bytes = randomBytes(kSecretBytes);
  std::string text = hexadecimal(bytes);
  const Secret secret({text});
  wipe(bytes);
  wipe(text);
  writeSecret(path, secret.view());
  secretFile_ = path;
  key_ = deriveKey(secret.view(), "store");
}

void Meeting::renew() {
  if (server_) {
    serve();
  }
}

void Meeting::serve() {
  server_.reset();  // before the next one, which may want the same port
  const bool alone = job_.nodes == 1;
  const HostPort usual = alone ? HostPort{places_.master.host, 0} : job_.store;
  server_ = std::make_unique<tcp::StoreServer>(
      tcp::StoreServer::Options{.host = job_.bind.empty() ? usual.host : job_.bind,
                                .port = usual.port,
                                .limits = tcp::serverLimits(),
                                .key = key_,
                                .admitLocal = false},  // the relay is for those
      Deadline::after(defaultTimeout()));
  const SocketAddress here = server_->address();
  places_.store = {alone ? here.hostText() : job_.store.host, server_->port()};
  if (relay_) {
    relay_->leadTo(here);
  } else {
    places_.master = places_.store;
  }
  if (alone || !relay_) {
    return;
  }
  places_.ownAddress = outside(routeTo(job_.store, Deadline::after(defaultTimeout())));
}

/// The ranks start meanwhile: that takes time, and they may not need the store at all.
void Meeting::search() {
  places_.ownAddress = outside(routeTo(job_.store, Deadline::after(defaultTimeout())));
  search_ = std::make_shared<Search>(*relay_);
  Thread("unisono-search", [search = search_, store = job_.store, key = key_] {
    search->run(store, *key);
  }).detach();
}

void Meeting::check() const {
  if (search_) {
    search_->check();
  }
}

std::size_t Meeting::connectionCount() const {
  return server_ ? server_->connectionCount() : 0;
}

}  // namespace unisono::launch
