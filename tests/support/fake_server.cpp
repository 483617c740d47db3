#include "support/fake_server.hpp"

#include <algorithm>
#include <array>
#include <poll.h>
#include <utility>

#include "base/clock.hpp"
#include "base/str.hpp"
#include "net/accept.hpp"
#include "net/connect.hpp"
#include "net/net_support.hpp"

namespace unisono::test {
namespace {

/// The question that only our servers answer with yes.
std::string capabilityProbe() {
  const std::array<std::string, 1> key = {std::string(tcp::kCapabilityKey)};
  return tcp::RequestWriter().begin(tcp::Query::CHECK).keys(key).bytes();
}

/// Makes `chunk` ask for a key that no server has instead.
std::string withoutProbe(std::string chunk) {
  static const std::string probe = capabilityProbe();
  const std::size_t at = chunk.find(probe);
  if (at != std::string::npos) {
    chunk[at + probe.size() - 1] = '?';
  }
  return chunk;
}

}  // namespace

FakeServer::FakeServer(Serve serve) : serve_(std::move(serve)), listener_(listenOn("127.0.0.1")) {
  acceptor_ = std::thread([this] { acceptLoop(); });
}

FakeServer::~FakeServer() {
  stop_.store(true);
  acceptor_.join();
  cutAll();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void FakeServer::cutAll() {
  const std::lock_guard lock(mutex_);
  for (Socket& socket : open_) {
    socket.shutdown();
  }
}

void FakeServer::acceptLoop() {
  const int fd = listener_.fds().front();
  while (!stop_.load()) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 5);
    AcceptResult result = acceptOne(fd);
    if (result.status != AcceptStatus::GOT) {
      continue;
    }
    const std::lock_guard lock(mutex_);
    Socket& socket = open_.emplace_back(std::move(result.fd));
    const int number = count_.fetch_add(1);
    threads_.emplace_back([this, &socket, number] {
      serve_(socket, number);
      const std::lock_guard closing(mutex_);
      open_.remove_if([&](const Socket& other) { return &other == &socket; });
    });
  }
}

std::string receive(Socket& socket, std::size_t count) {
  std::string bytes(count, '\0');
  return socket.recvExact(bytes.data(), count, soon()).isDone() ? bytes : "";
}

void send(Socket& socket, std::string_view bytes) {
  static_cast<void>(socket.sendAll(bytes, soon()));
}

void drain(Socket& socket) {
  std::array<char, 4096> buffer{};
  while (socket.recvSome(buffer.data(), buffer.size(), Deadline::never()).isDone()) {}
}

StockServer::StockServer()
    : core_(limits_), server_([this](Socket& socket, int number) { serve(socket, number); }) {}

void StockServer::serve(Socket& socket, int number) {
  const auto id = static_cast<tcp::ConnectionId>(number) + 1;
  tcp::RequestParser parser(limits_);
  {
    const std::lock_guard lock(mutex_);
    sockets_[number] = &socket;
    core_.open(id, str("client ", number), systemClock().now());
  }
  std::string buffer(1 << 20, '\0');
  for (bool open = true; open;) {
    const IoResult got = socket.recvSome(buffer.data(), buffer.size(), Deadline::never());
    const auto query = static_cast<tcp::Query>(static_cast<std::uint8_t>(buffer.front()));
    pauseBefore(query);
    const std::lock_guard lock(mutex_);
    if (!got.isDone()) {
      break;
    }
    const std::string chunk = buffer.substr(0, got.bytes);
    note(number, chunk, parser);
    if (query != ignored_) {
      core_.receive(id, withoutProbe(chunk), systemClock().now());
    }
    flush();
    open = core_.closing(id) == nullptr;
  }
  const std::lock_guard lock(mutex_);
  sockets_.erase(number);
  core_.close(id);
  flush();
}

void StockServer::note(int number, std::string_view bytes, tcp::RequestParser& parser) {
  tcp::Request request;
  while (parser.next(&bytes, &request) == tcp::RequestParser::Step::REQUEST) {
    seen_.push_back({number, str(request.answered ? "!" : "", request.shape->name)});
  }
}

void StockServer::flush() {
  for (const tcp::ConnectionId id : core_.takeTouched()) {
    const auto found = sockets_.find(static_cast<int>(id) - 1);
    const std::size_t size = core_.unsent(id).size();
    if (found != sockets_.end() && size > 0) {
      send(*found->second, core_.unsent(id));
      core_.sent(id, size, systemClock().now());
    }
  }
}

std::vector<StockServer::Seen> StockServer::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

std::string StockServer::asked(int connection) const {
  std::vector<std::string> names;
  for (const Seen& one : seen()) {
    if (one.connection == connection) {
      names.push_back(one.query);
    }
  }
  constexpr std::ptrdiff_t kHandshake = 3;  // validate, ping, and the question what it can do
  names.erase(names.begin(),
              names.begin() + std::min<std::ptrdiff_t>(kHandshake, std::ssize(names)));
  return join(names, " ", 1000);
}

void StockServer::takeLong(tcp::Query query, Milliseconds pause) {
  const std::lock_guard lock(mutex_);
  slow_ = query;
  pause_ = pause;
}

void StockServer::pauseBefore(tcp::Query query) {
  Milliseconds pause(0);
  {
    const std::lock_guard lock(mutex_);
    pause = query == slow_ ? pause_ : pause;
  }
  pauseFor(pause, {.deadline = Deadline::after(pause), .subject = {}});
}

void StockServer::ignore(tcp::Query query) {
  const std::lock_guard lock(mutex_);
  ignored_ = query;
}

CuttingProxy::CuttingProxy(std::uint16_t serverPort, Direction direction, std::size_t cutAfter)
    : serverPort_(serverPort),
      direction_(direction),
      cutAfter_(cutAfter),
      server_([this](Socket& client, int number) { serve(client, number); }) {}

void CuttingProxy::serve(Socket& client, int number) {
  Socket server = unisono::connectTo("127.0.0.1", serverPort_, soon(), Milliseconds(20'000));
  applyStreamOptions(client.fd());
  std::string buffer(1 << 16, '\0');
  const std::array<Socket*, 2> ends = {&client, &server};
  while (number != 0 || passed_.load() < cutAfter_) {
    std::array<pollfd, 2> entries = {{{.fd = client.fd(), .events = POLLIN, .revents = 0},
                                      {.fd = server.fd(), .events = POLLIN, .revents = 0}}};
    ::poll(entries.data(), entries.size(), -1);
    for (std::size_t from = 0; from < 2; ++from) {
      if (entries[from].revents == 0) {
        continue;
      }
      const bool counts = number == 0 && (direction_ == Direction::TO_SERVER) == (from == 0);
      const std::size_t most =
          counts ? std::min(buffer.size(), cutAfter_ - passed_.load()) : buffer.size();
      const IoResult got = ends[from]->recvSome(buffer.data(), most, soon());
      if (!got.isDone()) {
        return;
      }
      send(*ends[1 - from], {buffer.data(), got.bytes});
      passed_ += counts ? got.bytes : 0;
    }
  }
}

}  // namespace unisono::test
