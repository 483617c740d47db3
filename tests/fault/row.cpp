#include "fault/row.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "fault/crew.hpp"
#include "fault/sandbox.hpp"

namespace unisono::fault {
namespace {

/// Gives this process and its children a /dev/shm of their own, so that what is found there is
/// theirs; false where that is not allowed.
bool hasOwnShm() {
  static const bool own = [] {
    const bool may = mayMount();
    if (may) {
      coverWithTmpfs("/dev/shm", "");
    }
    return may;
  }();
  return own;
}

int numberOf(const Row& row) {
  return std::stoi(row.id + 1);
}

bool isFor(const Row& row, Way way) {
  return row.where == Row::Where::ANYWHERE ||
         (row.where == Row::Where::SHM_ONLY) == (way == Way::SHM);
}

}  // namespace

void watchWhatIsLeft() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans come to us, and are found
  static_cast<void>(hasOwnShm());
}

void checkNothingLeft() {
  require(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD, "a process was left behind");
  require(!hasOwnShm() || std::filesystem::is_empty("/dev/shm"),
          "something was left behind in /dev/shm");
}

std::vector<Row> allRows() {
  std::vector<Row> rows;
  for (const auto part :
       {deathRows(), delayRows(), misuseRows(), storeRows(), resourceRows(), processRows()}) {
    for (const Row& row : part) {
      for (const Way way : {Way::SHM, Way::TCP, Way::HOSTS}) {
        if (isFor(row, way)) {
          rows.push_back(row);
          rows.back().way = way;
        }
      }
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return numberOf(a) < numberOf(b); });
  return rows;
}

Outcome runRow(const Row& row, int rounds, std::uint64_t seed, bool thorough) {
  watchWhatIsLeft();
  Outcome outcome;
  const std::int64_t before = holdings();
  try {
    for (int number = 0; number < rounds; ++number) {
      Round round(seed, number, thorough, row.way);
      row.run(round);
      checkNothingLeft();
      require(holdings() == before, "descriptors or mappings were left behind");
      outcome.rounds += 1;
      outcome.tookMs.insert(outcome.tookMs.end(), round.tookMs().begin(), round.tookMs().end());
    }
  } catch (const Skipped& why) {
    outcome.skipped = why.what();
  } catch (const std::exception& error) {
    outcome.broken = str("round ", outcome.rounds, " with seed ", seed, ": ", error.what());
  }
  std::sort(outcome.tookMs.begin(), outcome.tookMs.end());
  return outcome;
}

}  // namespace unisono::fault
