#include "bench/collective/contest.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <type_traits>

#include "unisono/base/error.hpp"

#include "base/fd.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "bench/collective/torch_gloo.hpp"

namespace unisono::bench {
namespace {

constexpr Milliseconds kTimeOfARank(500);  // more for each: a core may have many

using Words = std::vector<std::string>;

/// With a rank's place in the world in its environment, as torchrun and env:// have it.
Words asRank(int rank, std::uint16_t port, const Stage& stage, const std::string& program) {
  Words words{str("RANK=", rank), str("WORLD_SIZE=", stage.ranks), "MASTER_ADDR=127.0.0.1",
              str("MASTER_PORT=", port), str("UNISONO_COMPARE_FOLDER=", stage.scratch)};
  if (stage.tcpOnly) {
    words.emplace_back("UNISONO_TRANSPORT=tcp");  // Gloo has nothing else
  }
  const bool isOurs = !stage.ours.empty() && program.ends_with("/compare_unisono");
  const Words last = isOurs ? stage.ours : Words{program};
  words.insert(words.end(), last.begin(), last.end());
  return words;
}

/// Sockets of the loopback device, as the others have: the plain messaging layer with TCP under it,
/// and no collectives that know of shared memory.
Words openMpiByTcp() {
  return {"--mca",       "pml",      "ob1",   "--mca",
          "btl",         "tcp,self", "--mca", "btl_tcp_if_include",
          "127.0.0.0/8", "--mca",    "coll",  "^sm,han"};
}

/// The same: each rank believes to be alone on its host, and the library below (UCX, or libfabric
/// in other builds) has TCP only.
Words mpichByTcp() {
  return {"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo", "FI_PROVIDER=tcp"};
}

Words byMpirun(const std::string& mpirun, bool open, const Stage& stage,
               const std::string& program) {
  Words words = !open && stage.tcpOnly ? mpichByTcp() : Words();
  words.insert(words.end(), {mpirun, "-np", str(stage.ranks)});
  if (open) {
    // Left to the ranks: where they run, as for all contestants.
    words.insert(words.end(), {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"});
  }
  if (open && stage.tcpOnly) {
    const Words more = openMpiByTcp();
    words.insert(words.end(), more.begin(), more.end());
  }
  words.push_back(program);
  return words;
}

/// Sleeps until ranks have come to the end of a task.
class FinishedWaitable final : public Waitable {
 public:
  explicit FinishedWaitable(Board& board) : board_(board) {}
  void sleep(Milliseconds most) override {
    const std::uint32_t seen = board_.finished.load(std::memory_order_acquire);
    if (seen != board_.ranks) {
      sleepWhile(board_.finished, seen, static_cast<long>(most.count()));
    }
  }

 private:
  Board& board_;
};

/// Where on the board contestant `number` finds what: as JSON, for those who cannot include it.
std::string layoutFor(std::size_t number) {
  static_assert(std::is_standard_layout_v<Board>);
  std::string text;
  const auto add = [&](const char* name, std::size_t offset) {
    text += str(text.empty() ? "{" : ",", "\"", name, "\":", offset);
  };
  add("turn", offsetof(Board, turn) + number * sizeof(Board::turn[0]));
  add("ready", offsetof(Board, ready) + number * sizeof(Board::ready[0]));
  add("finished", offsetof(Board, finished));
  add("wrong", offsetof(Board, wrong));
  add("lacking", offsetof(Board, lacking));
  add("version", offsetof(Board, version) + number * Board::kMostVersion);
  add("start_ns", offsetof(Board, startNs) + number * sizeof(Board::startNs[0]));
  add("nanoseconds", offsetof(Board, nanoseconds));
  add("row", sizeof(Board::nanoseconds[0]));
  add("op", offsetof(Board, task.op));
  add("bytes", offsetof(Board, task.bytes));
  add("count", offsetof(Board, task.count));
  add("element", offsetof(Board, task.element));
  add("in_a_row", offsetof(Board, task.inARow));
  add("reduction", offsetof(Board, task.reduction));
  add("is_checked", offsetof(Board, task.isChecked));
  add("root", offsetof(Board, task.root));
  return text + "}";
}

bool isThere(const std::string& program) {
  return ::access(program.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<Entrant> findEntrants(const std::vector<std::string>& names, const Stage& stage,
                                  std::vector<Absentee>& absent) {
  std::vector<Entrant> entrants;
  for (const std::string& name : names) {
    const bool isRegistered = name == kRegistered;
    const std::string program = str(stage.folder, "/compare_", isRegistered ? "unisono" : name);
    const bool isMpi = name == "openmpi" || name == "mpich";
    const std::string mpirun = isMpi ? findProgram(str("mpirun.", name)) : "";
    const bool isOurs = isRegistered || name == "unisono";
    if (name == kTorchGloo) {
      enterTorchGloo(stage, entrants, absent);
    } else if (!isThere(program) && (!isOurs || stage.ours.empty())) {
      absent.push_back({name, str("there was no ", name, " when unisono was built: ", program,
                                  " is not there (scripts/setup.sh peers installs it, then build "
                                  "compare_peers)")});
    } else if (isMpi && mpirun.empty()) {
      absent.push_back({name, str("there is no mpirun.", name)});
    } else if (isMpi) {
      entrants.push_back(
          {.name = name, .commands = {byMpirun(mpirun, name == "openmpi", stage, program)}});
    } else {
      Entrant entrant{.name = name, .commands = {}};
      const std::uint16_t port = freePort();
      for (int rank = 0; rank < stage.ranks; ++rank) {
        entrant.commands.push_back(asRank(rank, port, stage, program));
        if (isRegistered) {
          entrant.commands.back().emplace_back("registered");
        }
      }
      entrants.push_back(std::move(entrant));
    }
  }
  return entrants;
}

Contest::Contest(const std::vector<Entrant>& entrants, int ranks, const std::string& scratch,
                 std::vector<Absentee>& absent, const Rules& rules)
    : ranks_(ranks), timeForATask_(rules.timeForATask) {
  const std::string path = str(scratch, "/board");
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid() || ::ftruncate(file.get(), sizeof(Board)) != 0) {
    throw DistError({.reason = Reason::RESOURCE, .what = str(path, ": ", errnoDetail(errno))});
  }
  board_.reset(openBoard(path.c_str()));
  if (!board_) {
    throw DistError({.reason = Reason::RESOURCE, .what = str(path, ": ", errnoDetail(errno))});
  }
  board_->ranks = static_cast<std::uint32_t>(ranks);
  board_->isRoaming = rules.isRoaming;
  const std::string env = findProgram("env");
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
    for (const std::vector<std::string>& command : entrants[i].commands) {
      // Ranks meet where their environment says; a store of the caller's is none of theirs.
      std::vector<std::string> words{"env",
                                     "-u",
                                     "UNISONO_STORE",
                                     str(kBoardVariable, "=", path),
                                     str(kContestantVariable, "=", i),
                                     str(kLayoutVariable, "=", layoutFor(i))};
      words.insert(words.end(), command.begin(), command.end());
      processes_.emplace_back(env, std::move(words));
      owners_.push_back(i);
    }
    TimerWaitable often(Milliseconds(5));
    const auto isUp = [&] {
      return board_->ready[i].load(std::memory_order_acquire) == board_->ranks;
    };
    const Deadline up = Deadline::after(entrants[i].timeToComeUp + ranks * kTimeOfARank);
    static_cast<void>(
        waitUntil([&] { return isUp() || hasLostOne(i); }, {.deadline = up, .subject = {}}, often));
    if (isUp()) {
      names_.push_back(entrants[i].name);
      numbers_.push_back(static_cast<int>(i));
      startedNs_.push_back(static_cast<std::uint64_t>(now.count()));
    } else {
      absent.push_back({entrants[i].name, "its ranks do not come up"});
    }
  }
}

Contest::~Contest() {
  board_->task = Task{};
  for (const int number : numbers_) {
    board_->turn[number].fetch_add(1, std::memory_order_acq_rel);
    wakeAll(board_->turn[number]);
  }
}

bool Contest::hasLostOne(std::size_t entrant) const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (owners_[i] == entrant && processes_[i].isGone()) {
      return true;
    }
  }
  return false;
}

Contest::Start Contest::startOf(std::size_t which) const {
  const int number = numbers_.at(which);
  Start start;
  std::uint64_t last = 0;
  std::uint64_t first = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    last = std::max(last, board_->startNs[number][rank]);
    first = std::max(first, board_->firstNs[number][rank]);
    const Holding& then = board_->held[number][rank];
    const Holding& after = board_->heldAfter[number][rank];
    start.kibibytesOfRank += static_cast<double>(then.memoryKib) / ranks_;
    start.connectionsOfRank += static_cast<double>(then.connections) / ranks_;
    start.kibibytesAfter += static_cast<double>(after.memoryKib) / ranks_;
    start.connectionsAfter += static_cast<double>(after.connections) / ranks_;
  }
  start.milliseconds = static_cast<double>(last - startedNs_.at(which)) / 1e6;
  start.firstMicroseconds = static_cast<double>(first) / 1e3;
  return start;
}

std::string Contest::versionOf(std::size_t which) const {
  const char* const text = board_->version[numbers_.at(which)];
  return {text, ::strnlen(text, Board::kMostVersion)};
}

std::uint64_t Contest::preemptionsOf(std::size_t which) const {
  const std::uint64_t* const counts = board_->preemptions[numbers_.at(which)];
  return std::accumulate(counts, counts + ranks_, std::uint64_t{0});
}

Contest::Result Contest::run(std::size_t which, const Task& task) {
  const int number = numbers_.at(which);
  board_->task = task;
  board_->wrong.store(0, std::memory_order_relaxed);
  board_->lacking.store(0, std::memory_order_relaxed);
  board_->finished.store(0, std::memory_order_relaxed);
  board_->turn[number].fetch_add(1, std::memory_order_acq_rel);
  wakeAll(board_->turn[number]);
  // Sleeps: the cores are the contestant's.
  FinishedWaitable finished(*board_);
  const auto isDone = [&] {
    return board_->finished.load(std::memory_order_acquire) == board_->ranks;
  };
  const auto isLost = [&] { return hasLostOne(static_cast<std::size_t>(number)); };
  static_cast<void>(waitUntil([&] { return isDone() || isLost(); },
                              {.deadline = Deadline::after(timeForATask_), .subject = {}},
                              finished));
  if (!isDone()) {
    throw DistError({.reason = isLost() ? Reason::PEER_DEAD : Reason::TIMEOUT,
                     .what = str(names_[which], isLost() ? " lost a rank at " : " does not finish ",
                                 task.bytes, " bytes"),
                     .hint = str("measure without ", names_[which],
                                 isLost() ? ", or fewer bytes" : ", fewer bytes, or for longer")});
  }
  Result result;
  result.wrong = board_->wrong.load(std::memory_order_relaxed);
  result.isLacking = board_->lacking.load(std::memory_order_relaxed) > 0;
  const std::uint64_t times = result.isLacking ? 0 : task.inARow ? 1 : task.count;
  for (std::uint64_t i = 0; i < times; ++i) {
    std::uint64_t slowest = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      slowest = std::max(slowest, board_->nanoseconds[rank][i]);
    }
    result.microseconds.push_back(static_cast<double>(slowest) / 1000);
  }
  return result;
}

}  // namespace unisono::bench
