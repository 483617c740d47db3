#include "program.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/version.hpp"

#include "base/str.hpp"
#include "command.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

/// Every command, in the order of the help.
constexpr std::array kCommands = {addStore, addInfo, addCompletion};

int exitCodeFor(const DistError& error) {
  switch (error.reason()) {
    case Reason::USAGE:  // said by the store, it is about a value there
      return dynamic_cast<const UsageError*>(&error) != nullptr ? USAGE_ERROR : FAILURE;
    case Reason::TIMEOUT:
      return TIMED_OUT;
    case Reason::PEER_UNREACHABLE:
    case Reason::CONFIG:
    case Reason::STORE_LOST:
      return UNREACHABLE;
    case Reason::RESOURCE:  // a port that is taken, or what this process may have
      return dynamic_cast<const DistNetworkError*>(&error) != nullptr ? UNREACHABLE : FAILURE;
    default:
      return FAILURE;
  }
}

/// The names that could have stood where `app` was left without a valid one.
std::vector<std::string_view> knownWords(const CLI::App& app,
                                         const std::vector<std::string>& names) {
  std::vector<std::string_view> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.emplace_back(command->get_name());
  }
  known.insert(known.end(), names.begin(), names.end());
  return known;
}

/// One line for a command line that makes no sense.
int refuse(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* app = &program;
  std::string command = "unisono";
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    command += " " + app->get_name();
  }
  std::vector<std::string> options;
  for (const CLI::Option* option : app->get_options()) {
    options.push_back(option->get_name());
  }
  const std::vector<std::string> extras = app->remaining();
  const std::string_view meant =
      extras.empty() ? std::string_view() : nearest(extras.front(), knownWords(*app, options));
  const std::string what =
      extras.empty()  ? std::string(error.what())
      : meant.empty() ? str("'", extras.front(), "' is not known to ", command)
                      : str("'", extras.front(), "' is not known; did you mean ", meant, "?");
  const ErrorFacts facts{
      .reason = Reason::USAGE, .what = what, .hint = str("see ", command, " --help")};
  std::fprintf(stderr, "%s\n", describe(facts).c_str());
  return USAGE_ERROR;
}

/// Without this a program that was started without standard streams would open its sockets in
/// their place, and print into them.
void openStandardStreams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

int run(int argc, char** argv) {
  CLI::App program("Processes find each other, form groups, and work together.", "unisono");
  program.set_version_flag("--version", str("unisono ", UNISONO_VERSION_STRING));
  program.require_subcommand(1);
  program.footer("Each command has its own help: unisono store --help");
  Context context;
  for (const auto add : kCommands) {
    add(program, context);
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help) {
    watchSignals();
    std::ostringstream text;
    program.exit(help, text);
    print(text.str());
  } catch (const CLI::ParseError& error) {
    return refuse(program, error);
  }
  flushOutput();
  return context.exitCode;
}

/// Runs the program, and turns everything that ends it early into a line and an exit code.
int guarded(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Interrupted& interrupted) {
    return SIGNALED + interrupted.signal();
  } catch (const ClosedPipe&) {
    return SIGNALED + SIGPIPE;
  } catch (const DistError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return exitCodeFor(error);
  } catch (const FileFailure& error) {
    complain(error.what());
    return FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unisono: %s. [RESOURCE]\n", error.what());
    return FAILURE;
  }
}

}  // namespace

int runProgram(int argc, char** argv) {
  openStandardStreams();
  return guarded(argc, argv);
}

}  // namespace unisono::cli
