#include "fault/host_ranks.hpp"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <poll.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "unisono/store/file_store.hpp"

#include "base/str.hpp"
#include "support/watch.hpp"

namespace unisono::fault {
namespace {

// What has not happened by then will not.
constexpr Milliseconds kPatience(90'000);

void close(int& fd) {
  if (fd >= 0) {
    ::close(std::exchange(fd, -1));
  }
}

}  // namespace

HostRanks::HostRanks(const test::Netlab& lab, int perHost, Milliseconds netDead, const Body& body)
    : lab_(lab), perHost_(perHost), size_(lab.hosts() * perHost), since_(test::nowNs()) {
  if (::pipe2(arrivals_, O_CLOEXEC | O_NONBLOCK) != 0 || ::pipe2(leave_[0], O_CLOEXEC) != 0 ||
      ::pipe2(leave_[1], O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipes");
  }
  for (int rank = 0; rank < size_; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      close(leave_[0][1]);  // or its end would never be seen
      close(leave_[1][1]);
      live(rank, netDead, body);
    }
    children_.push_back(child);
  }
}

HostRanks::~HostRanks() {
  for (const pid_t child : children_) {
    if (child > 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  for (auto& pipe : {std::ref(arrivals_), std::ref(leave_[0]), std::ref(leave_[1])}) {
    close(pipe.get()[0]);
    close(pipe.get()[1]);
  }
}

/// Never returns.
void HostRanks::live(int rank, Milliseconds netDead, const Body& body) const {
  const int host = hostOf(rank);
  std::string text = "done";
  try {
    lab_.enter(host);
    ::setenv("UNISONO_IFNAME", "eth0", 1);
    ::setenv("UNISONO_AUTH_SECRET", "known to all hosts of the lab", 1);
    ::setenv("UNISONO_NET_DEAD_MS", str(netDead.count()).c_str(), 1);
    body(Seat(*this, rank));
  } catch (const std::exception& error) {
    text = error.what();
  }
  // The time is taken here: the test may look later.
  std::ofstream(file(rank) + ".new") << test::nowNs() << ' ' << text;
  std::filesystem::rename(file(rank) + ".new", file(rank));
  ::_exit(0);
}

Group HostRanks::Seat::join(Milliseconds timeout, const std::string& place) const {
  const auto store = std::make_shared<FileStore>(ranks_.folder_.file(place), size());
  return init({.store = store, .rank = rank_, .size = size(), .timeout = timeout});
}

void HostRanks::Seat::arrive() const {
  if (::write(ranks_.arrivals_[1], "", 1) != 1) {
    throw std::runtime_error("the test is gone");
  }
}

void HostRanks::Seat::awaitGo(int time) const {
  char none = 0;
  if (::read(ranks_.leave_[time][0], &none, 1) != 0) {
    throw std::runtime_error("the test is gone");
  }
}

bool HostRanks::awaitArrivals(int count) const {
  int missing = count < 0 ? size_ : count;
  return test::eventually(
      [&] {
        char each = 0;
        while (missing > 0 && ::read(arrivals_[0], &each, 1) == 1) {
          --missing;
        }
        return missing == 0;
      },
      kPatience);
}

bool HostRanks::hasArrival() const {
  pollfd entry{.fd = arrivals_[0], .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

void HostRanks::go() {
  since_ = test::nowNs();
  close(leave_[times_++][1]);
}

std::vector<HostRanks::Told> HostRanks::outcomes() {
  std::vector<Told> all;
  for (int rank = 0; rank < size_; ++rank) {
    pid_t& child = children_[static_cast<std::size_t>(rank)];
    if (test::eventually([&] { return ::waitpid(child, nullptr, WNOHANG) != 0; }, kPatience)) {
      child = -1;
    }
    std::int64_t at = 0;
    Told told;
    std::ifstream in(file(rank));
    in >> at;
    in.get();
    std::getline(in, told.text, '\0');
    told.seconds = static_cast<double>(at - since_) / 1e9;
    all.push_back(std::move(told));
  }
  return all;
}

std::string HostRanks::file(int rank) const {
  return folder_.file(str("rank", rank));
}

}  // namespace unisono::fault
