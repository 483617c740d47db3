// store_linearizability: records histories of real servers under faults, and checks each of them.
//
//   store_linearizability [--from SEED] [--histories N] [--clients C] [--calls N] [--seconds S]
//
// Prints one JSON object. Ends with 1, and the calls that fit into no order, when one is wrong;
// with 3 when a history stayed undecided, or the time ended before all were made.
// --seconds: begins no further history after so long (3000); whoever gives it is content with
// fewer.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "linear/checker.hpp"
#include "linear/outcome.hpp"
#include "linear/recording.hpp"

namespace {

using namespace unisono;
using linear::Circumstances;
using linear::Verdict;

// One after the other; in three of four histories something is done to server or clients.
constexpr std::array<Circumstances, 8> kCircumstances = {{
    {"undisturbed", true, false, false, false},
    {"pauses", true, false, true, false},
    {"cuts", true, false, false, true},
    {"pauses_cuts", true, false, true, true},
    {"synchronous_undisturbed", true, true, false, false},
    {"synchronous_pauses", true, true, true, false},
    {"synchronous_cuts", true, true, false, true},
    {"poll_pauses_cuts", false, true, true, true},
}};

constexpr std::size_t kMostSteps = 10'000'000;

struct Total {
  long histories = 0;
  long calls = 0;
  long unknown = 0;  // calls without an answer
  long faulty = 0;   // calls of histories with faults that were found to be in order
  long undecided = 0;
  double longestCheck = 0;
  std::string wrong;
};

double since(TimePoint start) {
  return std::chrono::duration<double>(systemClock().now() - start).count();
}

void one(const linear::RecordingOptions& options, Total& total) {
  const linear::History history = linear::record(options);
  const TimePoint start = systemClock().now();
  const Verdict verdict = linear::check(history, kMostSteps);
  total.longestCheck = std::max(total.longestCheck, since(start));
  ++total.histories;
  total.calls += static_cast<long>(history.size());
  total.unknown += std::count_if(history.begin(), history.end(),
                                 [](const linear::Event& event) { return !event.known; });
  if (verdict.kind == Verdict::Kind::TOO_LONG) {
    ++total.undecided;
    static_cast<void>(std::fprintf(stderr, "store_linearizability: seed %lu is undecided: %s\n",
                                   options.seed, verdict.why.c_str()));
  } else if (!verdict.isFine()) {
    total.wrong = verdict.why;
  } else if (options.how.pauses || options.how.cuts) {
    total.faulty += static_cast<long>(history.size());
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string_view, long> given = {{"--from", 1},
                                            {"--histories", 24},
                                            {"--clients", 16},
                                            {"--calls", 2000},
                                            {"--seconds", 3000}};
  for (int i = 1; i + 1 < count; i += 2) {
    const auto option = given.find(arguments[i]);
    if (option == given.end() || count % 2 == 0) {
      static_cast<void>(std::fputs("store_linearizability: see its first lines\n", stderr));
      return 2;
    }
    option->second = std::strtol(arguments[i + 1], nullptr, 10);
  }
  const bool timeWasGiven = std::any_of(arguments + 1, arguments + count, [](const char* argument) {
    return std::string_view(argument) == "--seconds";
  });
  const TimePoint start = systemClock().now();
  Total total;
  long seed = given["--from"];
  while (total.histories < given["--histories"] && total.wrong.empty() &&
         since(start) < static_cast<double>(given["--seconds"])) {
    one({.how = kCircumstances[static_cast<std::size_t>(seed) % kCircumstances.size()],
         .clients = static_cast<int>(given["--clients"]),
         .calls = static_cast<int>(given["--calls"]),
         .seed = static_cast<std::uint64_t>(seed)},
        total);
    ++seed;
  }
  std::printf(R"({"schema":"unisono-store-linearizability/1","from":%ld,"histories":%ld,)"
              R"("clients":%ld,"calls_each":%ld,"calls":%ld,"calls_without_answer":%ld,)"
              R"("calls_under_faults_in_order":%ld,"undecided_histories":%ld,)"
              R"("wrong_histories":%d,"longest_check_s":%.1f,"seconds":%.0f})"
              "\n",
              given["--from"], total.histories, given["--clients"], given["--calls"], total.calls,
              total.unknown, total.faulty, total.undecided, total.wrong.empty() ? 0 : 1,
              total.longestCheck, since(start));
  if (!total.wrong.empty()) {
    static_cast<void>(std::fprintf(stderr, "store_linearizability: seed %ld: %s\n", seed - 1,
                                   total.wrong.c_str()));
  }
  const linear::Outcome outcome{
      .asked = given["--histories"],
      .histories = total.histories,
      .undecided = total.undecided,
      .wrong = !total.wrong.empty(),
      .timeIsUp = total.wrong.empty() && total.histories < given["--histories"],
      .timeWasGiven = timeWasGiven};
  if (const std::string what = linear::missing(outcome); !what.empty()) {
    static_cast<void>(std::fprintf(stderr, "store_linearizability: %s\n", what.c_str()));
  }
  return linear::exitCode(outcome);
}
