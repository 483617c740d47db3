// Supervisor: runs the ranks of one node: starts them, passes on what they print and the signals
// that we get, ends all when one fails, and starts them anew if that was asked for.
//
// Each attempt has a store of its own: nothing of an earlier one is left in it.
//
// Thread safety: everything on the thread that made it.
#pragma once

#include <csignal>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "launch/folder.hpp"
#include "launch/plan.hpp"
#include "net/reactor.hpp"

namespace unisono::launch {

class Excerpt;
class Guardian;
class Inlet;
class Meeting;
class Outlet;
class Signals;

/// Where a line comes from.
struct Origin {
  int rank = 0;
  bool isError = false;  // printed to standard error
};

struct Setup {
  Job job;
  Milliseconds grace = std::chrono::seconds(30);  // from a signal to SIGKILL
  std::vector<int> signals;                       // that end the job; passed on to the ranks
  std::string logFolder;                          // empty: for temporary files
  bool keepLogs = false;
  bool quiet = false;      // says nothing about restarts and signals
  bool oneStream = false;  // all lines go to standard output
  /// What to print for a line, which has its end.
  std::function<std::string(const Origin& origin, std::string_view line)> format;
};

/// A rank that failed.
struct Loss {
  int rank = 0;
  pid_t pid = 0;
  int result = 0;  // an exit code, or minus the number of a signal
  std::vector<std::string> lastLines;
  std::string account;  // what it left in its error file: torch's JSON, or whatever it wrote
};

/// How the job ended.
struct Report {
  int signal = 0;       // that we were ended by
  int outputError = 0;  // errno, when what the ranks print could not be written
  int restarts = 0;
  std::optional<Loss> loss;  // the first, in the last attempt
  std::vector<int> ended;    // the ranks that were told to end because of it
  std::string folder;        // of the ranks' files, if they are kept
};

class Supervisor {
 public:
  /// Makes the Meeting of the job. Throws what that throws. From then on signals are ours.
  explicit Supervisor(Setup setup);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Runs the job until its end, which is up to its ranks. To be called once.
  Report run();

  /// Of the files of its ranks.
  const std::string& folder() const noexcept { return folder_.path(); }

  /// Prints `text` to standard error after all that has been printed so far, before run() or in it.
  void say(std::string_view text);

 private:
  class SignalWatcher;
  struct Member;
  enum class Phase : std::uint8_t {
    RUNNING,
    ENDING,     // the ranks have been told to
    LINGERING,  // they have, but others still hold their pipes
    DRAINING,   // what was printed is being written
  };

  void startAttempt();
  void startMember(int localRank);
  void onSignal(int number);
  void collect();
  void lose(Member& member);
  void tellAll(int number);
  void end(int number);
  void step();
  void stepOn();
  /// The rank that ends first may have failed because of one that takes longer to end: of those
  /// that have written down what they failed with, the first to do so is the one to be shown.
  void findCulprit();
  void closeAttempt();
  bool isIdle() const;
  void balance();
  void remember(Member& member, std::string_view line);
  Outlet& outletFor(bool isError) noexcept;

  const Setup setup_;
  const std::vector<Core> cores_;
  const Folder folder_;
  const std::unique_ptr<Reactor> reactor_;
  const std::unique_ptr<Guardian> guardian_;
  const std::unique_ptr<Meeting> meeting_;
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<SignalWatcher> signalWatcher_;
  std::unique_ptr<Inlet> inlet_;  // null: at most rank 0 reads what we are given
  std::unique_ptr<Outlet> output_;
  std::unique_ptr<Outlet> error_;           // null: the same file as the output
  std::unique_ptr<Excerpt> outputExcerpt_;  // null: not asked for; of the attempt
  std::unique_ptr<Excerpt> errorExcerpt_;
  std::vector<std::unique_ptr<Member>> members_;
  Phase phase_ = Phase::RUNNING;
  int attempt_ = 0;
  bool paused_ = false;
  bool killed_ = false;
  Deadline patience_ = Deadline::never();  // of the phase
  Report report_;
  std::exception_ptr failure_;
};

}  // namespace unisono::launch
