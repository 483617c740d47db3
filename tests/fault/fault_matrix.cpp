// fault_matrix: every fault that a group must survive, many times, in shared memory and by TCP.
//
//   fault_matrix [--rounds N] [--seed S] [--only F1,F9] [--way shm|tcp|hosts] [--list]
//
// Prints a table of what each row must come to, how long that may take, and how long it took. Ends
// with 1 when a promise was broken or a bound missed; the row then says how. Rows that last long
// are run less often.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "fault/row.hpp"

namespace unisono::fault {
namespace {

struct Settings {
  int rounds = 20;
  std::uint64_t seed = randomSeed();
  std::string only;  // ",F1,F9,"; empty: all
  std::string way;   // "tcp"; empty: all
  bool list = false;
};

std::string inMs(double ms) {
  char text[32];
  static_cast<void>(std::snprintf(text, sizeof text, ms < 100 ? "%.1f ms" : "%.0f ms", ms));
  return text;
}

std::string boundOf(const Row& row) {
  if (row.slack.count() == 0) {
    return "–";
  }
  return row.after.count() == 0 ? str(row.slack.count(), " ms")
                                : str(row.after.count(), " + ", row.slack.count(), " ms");
}

/// What of the outcome is not as the row says; empty: nothing.
std::string complaint(const Row& row, const Outcome& outcome) {
  if (!outcome.broken.empty() || outcome.tookMs.empty() || row.slack.count() == 0) {
    return outcome.broken;
  }
  if (outcome.tookMs.front() < static_cast<double>(row.after.count())) {
    return str("it ended early, after ", inMs(outcome.tookMs.front()));
  }
  const auto bound = static_cast<double>((row.after + row.slack).count());
  return outcome.tookMs.back() > bound ? str("it took ", inMs(outcome.tookMs.back())) : "";
}

/// Runs a row and prints its line of the table; whether all was as it says.
bool show(const Row& row, const Settings& settings) {
  // Each second of a timeout that must pass is a tenth of the rounds, but a few there must be.
  const bool isLong = row.after.count() > 1000 || row.rounds <= 2;
  const int rounds = isLong ? std::max(2, settings.rounds / 10) : settings.rounds;
  const Outcome outcome = runRow(row, rounds, settings.seed, true);
  const bool timed = !outcome.tookMs.empty();
  const std::string worst = timed ? inMs(outcome.tookMs.back()) : "–";
  const std::string median = timed ? inMs(outcome.tookMs[outcome.tookMs.size() / 2]) : "–";
  const std::string bad = complaint(row, outcome);
  const std::string note = !bad.empty()               ? str(" BROKEN: ", bad)
                           : !outcome.skipped.empty() ? str(" not run: ", outcome.skipped)
                                                      : "";
  std::printf("| %s | %s | %s | %s | %s | %s | %s | %d%s |\n", row.id, nameOf(row.way), row.fault,
              row.expected, boundOf(row).c_str(), worst.c_str(), median.c_str(), outcome.rounds,
              note.c_str());
  std::fprintf(stderr, "%s (%s) %s\n", row.id, nameOf(row.way), bad.empty() ? "done" : bad.c_str());
  return bad.empty();
}

std::optional<Settings> parse(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--list") {
      settings.list = true;
    } else if (i + 1 == count) {
      return std::nullopt;
    } else if (name == "--rounds") {
      settings.rounds = std::atoi(arguments[++i]);
    } else if (name == "--seed") {
      settings.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--only") {
      settings.only = str(",", arguments[++i], ",");
    } else if (name == "--way") {
      settings.way = arguments[++i];
    } else {
      return std::nullopt;
    }
  }
  return settings;
}

int main(int count, char** arguments) {
  const auto settings = parse(count, arguments);
  if (!settings) {
    std::fputs(
        "usage: fault_matrix [--rounds N] [--seed S] [--only F1,F9] [--way shm|tcp|hosts] "
        "[--list]\n",
        stderr);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // or forked ranks would have a copy
  if (!settings->list) {
    std::puts("| row | by | fault | expected | bound | worst | median | rounds |");
    std::puts("|---|---|---|---|---|---|---|---|");
  }
  bool good = true;
  for (const Row& row : allRows()) {
    const bool isOther =
        !settings->only.empty() && settings->only.find(str(",", row.id, ",")) == std::string::npos;
    if (isOther || (!settings->way.empty() && settings->way != nameOf(row.way))) {
      continue;
    }
    if (settings->list) {
      std::printf("%s (%s): %s\n", row.id, nameOf(row.way), row.fault);
    } else {
      good = show(row, *settings) && good;
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace unisono::fault

int main(int count, char** arguments) {
  return unisono::fault::main(count, arguments);
}
