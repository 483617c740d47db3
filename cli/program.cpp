#include "program.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/version.hpp"

#include "base/log.hpp"
#include "base/str.hpp"
#include "command.hpp"
#include "config_file.hpp"
#include "run_line.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

/// Every command, in the order of the help.
constexpr std::array kCommands = {addRun, addBench, addStore, addDoctor, addInfo, addCompletion};

int exitCodeFor(const DistError& error) {
  switch (error.reason()) {
    case Reason::USAGE:  // said by the store, it is about a value there
      return dynamic_cast<const UsageError*>(&error) != nullptr ? USAGE_ERROR : FAILURE;
    case Reason::TIMEOUT:
      return TIMED_OUT;
    case Reason::PEER_UNREACHABLE:
    case Reason::CONFIG:
    case Reason::STORE_LOST:
    case Reason::PROTOCOL:  // something answers, but it is no store
      return UNREACHABLE;
    case Reason::AUTH_FAILED:
      return NOT_TRUSTED;
    case Reason::RESOURCE:  // a port that is taken, or what this process may have
      return dynamic_cast<const DistNetworkError*>(&error) != nullptr ? UNREACHABLE : FAILURE;
    default:
      return FAILURE;
  }
}

// The parser takes [a,b] for a list, where there may be several words. With this behind it, it is a
// word.
constexpr char kWordMark = '\x1f';

void markWords(std::vector<std::string>& words) {
  for (std::string& word : words) {
    if (word.starts_with('[')) {
      word += kWordMark;
    }
  }
}

std::string unmarked(std::string word) {
  if (word.starts_with('[') && word.ends_with(kWordMark)) {
    word.pop_back();
  }
  return word;
}

/// All options of `app` and its commands get their words as they were typed.
void unmarkWords(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    const auto unmark = [](std::string& word) {
      word = unmarked(std::move(word));
      return std::string();
    };
    option->transform(CLI::Validator(unmark, ""));
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    unmarkWords(*command);
  }
}

/// The options that every command has, and each level above it, so that they may stand anywhere.
void takeManner(CLI::App& app, Manner& manner) {
  constexpr const char* kGroup = "Options of every command";
  app.set_help_flag();  // and again, to have it after the options of the command itself
  app.set_help_flag("-h,--help", "Show this help")->group(kGroup);
  app.set_version_flag("--version", str("unisono ", UNISONO_VERSION_STRING), "Show the version")
      ->group(kGroup);
  app.add_flag("--json", manner.json, "Print JSON, for programs")->group(kGroup);
  app.add_flag("-v,--verbose", manner.verbose, "Say more; twice for every detail")->group(kGroup);
  app.add_flag("-q,--quiet", manner.quiet, "Say only what was asked for")->group(kGroup);
  app.add_option("--color", manner.color, "Colours: auto (on a terminal), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option(kConfigOption, "A JSON object of further options: {\"port\": 29500}")
      ->type_name("FILE")
      ->group(kGroup);
  for (CLI::Option* option : app.get_options([](const CLI::Option* any) {
         return !any->get_positional() && any->get_expected_min() == 1 &&
                any->get_expected_max() == 1;
       })) {  // as everywhere: an alias may give an option that the line gives again
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    command->group("Commands");
    takeManner(*command, manner);
  }
}

std::vector<std::string> commandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

/// The nearest of the words that could have stood where `app` was given `word`; empty if none is.
std::string meantBy(std::string_view word, const CLI::App& app) {
  std::vector<std::string> names = commandsOf(app);
  for (const CLI::Option* option : app.get_options()) {
    names.push_back(option->get_name());
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  return std::string(nearest(word.substr(0, word.find('=')), known));
}

/// What is wrong with a command line, of which `app` (called `command`) was the last word known.
std::string mistake(const CLI::App& app, const std::string& command, const CLI::ParseError& error) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) {
    const bool lacksCommand = app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
    return lacksCommand ? str("no command was given; there are ",
                              join(commandsOf(app), ", ", commandsOf(app).size()))
                        : std::string(error.what());
  }
  const std::string word = unmarked(extras.front());
  const std::string meant = meantBy(word, app);
  return meant.empty() ? str("'", word, "' is not known to ", command)
                       : str("'", word, "' is not known; did you mean ", meant, "?");
}

/// One line for a command line that makes no sense.
int refuse(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* app = &program;
  std::string command = "unisono";
  while (app->remaining().empty() && !app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    command += " " + app->get_name();
  }
  const ErrorFacts facts{.reason = Reason::USAGE,
                         .what = mistake(*app, command, error),
                         .hint = str("see ", command, " --help")};
  std::fprintf(stderr, "%s\n", describe(facts).c_str());
  return USAGE_ERROR;
}

/// Without this a program that was started without standard streams would open its sockets in
/// their place, and print into them. What stands there instead cannot be read or written: who needs
/// it fails, as it would have.
void replaceClosedStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) {  // the lowest that is free is taken
      static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
  }
}

int run(int argc, char** argv) {
  CLI::App program("Processes find each other, form groups, and work together.", "unisono");
  program.get_formatter()->label("SUBCOMMAND", "COMMAND");
  program.require_subcommand(1);
  program.footer("Each command has its own help: unisono store --help");
  Context context;
  for (const auto add : kCommands) {
    add(program, context);
  }
  takeManner(program, context.manner);
  unmarkWords(program);
  RunLine line = splitRunLine(program, {argv + 1, argv + argc});
  context.toStart = std::move(line.program);
  line.ours = withConfig(program, line.ours);
  markWords(line.ours);
  std::reverse(line.ours.begin(), line.ours.end());  // as the parser wants them
  try {
    program.parse(line.ours);
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

void begin(const Manner& manner) {
  watchSignals();
  setColor(manner.color);
  if (manner.verbose > 0 || manner.quiet) {
    const char* level = manner.verbose > 1 ? "debug" : manner.verbose == 1 ? "info" : "error";
    ::setenv("UNISONO_LOG", level, 1);
  }
  static_cast<void>(logEnabled(LogLevel::WARN, "cli"));  // says now if UNISONO_LOG makes no sense
}

int runProgram(int argc, char** argv) {
  replaceClosedStreams();
  return guarded(argc, argv);
}

}  // namespace unisono::cli
