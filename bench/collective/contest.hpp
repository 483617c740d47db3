// Contest: libraries that do the same tasks in turns, each with its own ranks.
//
// All contestants are started once and stay: who has no task sleeps. So a round is short, and every
// contestant meets the machine in the same mood.
//
// Thread safety: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/collective/board.hpp"
#include "bench/process.hpp"

namespace unisono::bench {

/// How to start the ranks of a library: one command that starts all, or one for each.
struct Entrant {
  std::string name;
  std::vector<std::vector<std::string>> commands;
  Milliseconds timeToComeUp{20'000};
};

/// Why a library that was asked for does not take part.
struct Absentee {
  std::string name;
  std::string why;
};

/// unisono again, with vectors in memory that it has allocated itself.
inline constexpr const char* kRegistered = "in place";

/// torch.distributed with its backend gloo, called from Python.
inline constexpr const char* kTorchGloo = "torch+gloo";

/// How contestants are started.
struct Stage {
  int ranks;
  bool tcpOnly = false;  // they may not use that they are on one host
  std::string folder;    // of their programs: that of the comparison's own
  std::string scratch;   // for files
  /// The words that start a rank of unisono; empty: its program in the folder.
  std::vector<std::string> ours = {};
  std::string python = {};  // has torch, it is hoped; empty: see nearestPython()
};

/// Those of `names` (unisono, kRegistered, openmpi, mpich, gloo, kTorchGloo) that can be started.
std::vector<Entrant> findEntrants(const std::vector<std::string>& names, const Stage& stage,
                                  std::vector<Absentee>& absent);

/// Those who are compared.
class Field {
 public:
  struct Result {
    std::vector<double>
        microseconds;         // of each operation, by the slowest rank; of all in a row one
    std::uint64_t wrong = 0;  // elements that were not right, of all ranks
    bool isLacking = false;   // its library has no such elements: nothing was done
  };

  virtual ~Field() = default;
  virtual const std::vector<std::string>& names() const = 0;
  /// Lets contestant `which` do `task`. Throws DistError when it does not come to an end.
  virtual Result run(std::size_t which, const Task& task) = 0;
};

/// What holds for all contestants.
struct Rules {
  Milliseconds timeForATask{60'000};
  bool isRoaming = false;  // ranks are not bound to cores, also where there are enough
};

class Contest final : public Field {
 public:
  /// Starts the ranks of all, and waits until they have come up. Those that do not are left out,
  /// with a reason in `absent`.
  Contest(const std::vector<Entrant>& entrants, int ranks, const std::string& scratch,
          std::vector<Absentee>& absent, const Rules& rules = {});
  ~Contest() override;
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;

  const std::vector<std::string>& names() const override { return names_; }

  /// What it took until all ranks of contestant `which` had come up. Of a rank: the average.
  struct Start {
    double milliseconds = 0;       // from the start of the first process
    double kibibytesOfRank = 0;    // memory; 0: unknown
    double connectionsOfRank = 0;  // by TCP
    // The first operation, which may have made connections, and what there was after a few.
    double firstMicroseconds = 0;  // of the slowest rank
    double kibibytesAfter = 0;
    double connectionsAfter = 0;
  };
  Start startOf(std::size_t which) const;
  /// What its library calls itself.
  std::string versionOf(std::size_t which) const;
  /// How often its ranks have lost their cores to somebody else so far.
  std::uint64_t preemptionsOf(std::size_t which) const;

  Result run(std::size_t which, const Task& task) override;

 private:
  bool hasLostOne(std::size_t entrant) const;

  struct Unmap {
    void operator()(Board* board) const noexcept { ::munmap(board, sizeof(Board)); }
  };

  const int ranks_;
  const Milliseconds timeForATask_;
  std::unique_ptr<Board, Unmap> board_;
  std::vector<std::string> names_;
  std::vector<int> numbers_;              // on the board, by index in names_
  std::vector<std::uint64_t> startedNs_;  // the same way
  std::vector<Process> processes_;
  std::vector<std::size_t> owners_;  // of the processes: the number of the entrant
};

}  // namespace unisono::bench
