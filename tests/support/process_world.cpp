#include "support/process_world.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/clock.hpp"
#include "base/str.hpp"
#include "support/rank_report.hpp"
#include "support/server_process.hpp"

namespace unisono::test {
namespace {

/// A rank that says nothing for so long is taken for lost.
constexpr Milliseconds kPatience = std::chrono::seconds(100);

/// What a rank writes down instead of printing it.
class Notes final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      const char* file = result.file_name();
      failures.push_back({file == nullptr ? "" : file, result.line_number(), result.message()});
    }
  }
  std::vector<RankReport::Failure> failures;
};

bool sendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
  return true;
}

bool receiveAll(int socket, char* to, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(socket, to, count, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;
    }
    to += std::max<ssize_t>(got, 0);
    count -= static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return true;
}

/// u64 length, then the bytes.
bool sendText(int socket, std::string_view text) {
  const std::uint64_t length = text.size();
  std::array<char, sizeof length> head{};
  std::memcpy(head.data(), &length, sizeof length);
  return sendAll(socket, {head.data(), head.size()}) && sendAll(socket, text);
}

std::optional<std::string> receiveText(int socket) {
  std::uint64_t length = 0;
  std::array<char, sizeof length> head{};
  if (!receiveAll(socket, head.data(), head.size())) {
    return std::nullopt;
  }
  std::memcpy(&length, head.data(), sizeof length);
  std::string text(length, '\0');
  return receiveAll(socket, text.data(), text.size()) ? std::optional(text) : std::nullopt;
}

/// "was ended by signal 9".
std::string endInWords(int status) {
  return WIFSIGNALED(status) ? str("was ended by signal ", WTERMSIG(status))
                             : str("has exited with ", WEXITSTATUS(status));
}

/// All ranks of all worlds; the same object in all processes. What it knows differs: a rank knows
/// itself, the test's process knows the ranks.
class Ranks final : public ::testing::Environment {
 public:
  std::vector<std::exception_ptr> run(int size, const std::function<void(int)>& body);
  void TearDown() override;

  bool isRank() const { return self_ >= 0; }
  StorePtr store();
  std::map<std::string, std::shared_ptr<void>> kept;

 private:
  struct Rank {
    pid_t pid = -1;
    int socket = -1;
  };

  void makeUpTo(int size);
  void become(int rank, int socket);
  RankReport work(const std::function<void(int)>& body);
  std::vector<RankReport> collect(int size);
  std::string endOf(Rank& rank);

  std::vector<Rank> ranks_;
  std::unique_ptr<ServerProcess> server_;
  int calls_ = 0;

  // Of a rank.
  int self_ = -1;
  int socket_ = -1;
  Notes* notes_ = nullptr;
  StorePtr store_;
};

std::vector<std::exception_ptr> Ranks::run(int size, const std::function<void(int)>& body) {
  ++calls_;
  makeUpTo(size);  // from here on there may be one more of us
  std::vector<RankReport> reports;
  if (!isRank()) {
    reports = collect(size);
    const std::string all = encodeReports(reports);
    for (const Rank& rank : ranks_) {
      static_cast<void>(rank.pid < 0 || sendText(rank.socket, all));
    }
  } else {
    if (self_ < size && !sendText(socket_, encodeReports({work(body)}))) {
      ::_exit(1);
    }
    const std::optional<std::string> all = receiveText(socket_);
    if (!all) {
      ::_exit(1);
    }
    reports = decodeReports(*all);
  }
  std::vector<std::exception_ptr> thrown;
  bool failed = false;
  for (const RankReport& report : reports) {
    thrown.push_back(report.thrown());
    failed = failed || thrown.back() || !report.failures.empty();
  }
  if (failed) {
    kept.clear();
  }
  return thrown;
}

/// Returns in the ranks that it makes, too.
void Ranks::makeUpTo(int size) {
  if (isRank()) {
    return;
  }
  if (!server_) {
    server_ = std::make_unique<ServerProcess>();
  }
  ranks_.resize(std::max(ranks_.size(), static_cast<std::size_t>(size)));
  for (int rank = 0; rank < size; ++rank) {
    Rank& place = ranks_[static_cast<std::size_t>(rank)];
    if (place.pid >= 0) {
      continue;
    }
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw std::runtime_error("cannot make a pair of sockets");
    }
    static_cast<void>(std::fflush(stdout));
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) {
      throw std::runtime_error("cannot fork");
    }
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) {
        ::_exit(1);
      }
      ::close(ends[0]);
      return become(rank, ends[1]);
    }
    ::close(ends[1]);
    place = {.pid = pid, .socket = ends[0]};
  }
}

void Ranks::become(int rank, int socket) {
  self_ = rank;
  socket_ = socket;
  for (const Rank& other : ranks_) {
    if (other.pid >= 0) {
      ::close(other.socket);
    }
  }
  ranks_.clear();
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  delete listeners.Release(listeners.default_xml_generator());
  notes_ = new Notes;
  listeners.Append(notes_);  // whose it is now
}

RankReport Ranks::work(const std::function<void(int)>& body) {
  notes_->failures.clear();  // of what the test's process has found by itself
  RankReport report;
  try {
    body(self_);
  } catch (...) {
    report = RankReport::ofCurrentException();
  }
  report.failures = std::move(notes_->failures);
  return report;
}

std::vector<RankReport> Ranks::collect(int size) {
  std::vector<RankReport> reports(static_cast<std::size_t>(size));
  std::vector<pollfd> open;
  for (int rank = 0; rank < size; ++rank) {
    open.push_back(
        {.fd = ranks_[static_cast<std::size_t>(rank)].socket, .events = POLLIN, .revents = 0});
  }
  const Deadline deadline = Deadline::after(kPatience);
  for (int left = size; left > 0;) {
    const int ready =
        ::poll(open.data(), open.size(), static_cast<int>(deadline.remaining().count()));
    for (std::size_t i = 0; i < open.size(); ++i) {
      const bool late = ready == 0 && open[i].fd >= 0;
      if (open[i].revents == 0 && !late) {
        continue;
      }
      if (late) {
        ::kill(ranks_[i].pid, SIGKILL);
      }
      const std::optional<std::string> text = late ? std::nullopt : receiveText(open[i].fd);
      reports[i] = text ? decodeReports(*text).at(0)
                        : RankReport::ofDeath(
                              static_cast<int>(i),
                              str(late ? "has said nothing for long and " : "", endOf(ranks_[i])));
      for (const RankReport::Failure& failure : reports[i].failures) {
        ADD_FAILURE_AT(failure.file.c_str(), failure.line) << "rank " << i << ": " << failure.text;
      }
      open[i].fd = -1;  // which poll leaves out
      --left;
    }
  }
  return reports;
}

/// Waits for it.
std::string Ranks::endOf(Rank& rank) {
  int status = 0;
  while (::waitpid(rank.pid, &status, 0) < 0 && errno == EINTR) {}
  ::close(rank.socket);
  rank = {};
  return endInWords(status);
}

StorePtr Ranks::store() {
  if (!store_) {
    store_ = std::make_shared<TCPStore>("127.0.0.1", TCPStoreOptions{.port = server_->port()});
  }
  return std::make_shared<PrefixStore>(str(calls_), store_);
}

void Ranks::TearDown() {
  kept.clear();
  store_.reset();
  if (isRank()) {
    std::exit(0);  // not _exit: what looks for leaks does it there
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].pid >= 0) {
      EXPECT_EQ(endOf(ranks_[i]), "has exited with 0") << "rank " << i << ", after the last test";
    }
  }
  server_.reset();
}

Ranks& ranks() {
  return *static_cast<Ranks*>(::testing::AddGlobalTestEnvironment(new Ranks));
}

/// Of gtest, which wants to know it before the first test.
Ranks& theRanks = ranks();

}  // namespace

bool ProcessWorld::asked() {
  const char* kind = std::getenv("TEST_RANKS");
  return kind != nullptr && std::string_view(kind) == "processes";
}

bool ProcessWorld::isRank() {
  return theRanks.isRank();
}

std::vector<std::exception_ptr> ProcessWorld::outcomes(const std::function<void(int)>& body) const {
  return theRanks.run(size_, body);
}

StorePtr ProcessWorld::store() {
  return theRanks.store();
}

std::shared_ptr<void>& ProcessWorld::keptAs(const std::string& key) {
  return theRanks.kept[key];
}

}  // namespace unisono::test
