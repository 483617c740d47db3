// unisono store watch: changes as they happen.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/str.hpp"
#include "base/wait.hpp"
#include "terminal.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

using Contents = std::map<std::string, std::string>;

Contents look(Store& store, const std::string& glob) {
  const std::vector<std::string> names = keysLike(store, glob);
  const std::vector<std::optional<std::string>> values = tryGetAll(store, names);
  Contents contents;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (values[i]) {
      contents.emplace(names[i], *values[i]);
    }
  }
  return contents;
}

/// Prints changes, and knows when it has printed enough.
class Reporter {
 public:
  explicit Reporter(const Args& args) : args_(args) {}

  bool done() const noexcept { return args_.count != 0 && printed_ >= args_.count; }

  void compare(const Contents& before, const Contents& now) {
    for (const auto& [key, value] : before) {
      if (!now.contains(key)) {
        report("del", key, nullptr);
      }
    }
    for (const auto& [key, value] : now) {
      const auto old = before.find(key);
      if (old == before.end() || old->second != value) {
        report("set", key, &value);
      }
    }
    flushOutput();
  }

 private:
  void report(std::string_view event, const std::string& key, const std::string* value) {
    if (done()) {
      return;
    }
    ++printed_;
    if (args_.json) {
      printLine(str("{\"event\":\"", event, "\",", jsonFields(key, value, args_.form()), "}"));
      return;
    }
    const std::string word = colored(value == nullptr ? Color::RED : Color::GREEN, event);
    const Form form = args_.form();
    printLine(value == nullptr ? str(word, " ", printable(key))
                               : str(word, " ", printable(key), " = ", shown(*value, form)));
  }

  const Args& args_;
  std::uint64_t printed_ = 0;
};

// However eager the command line is, the server has others to serve.
constexpr Milliseconds kLeastInterval(10);

/// Until it is time to look again, or nobody reads any more.
void pause(Milliseconds interval) {
  TimerWaitable timer(Milliseconds(50));
  if (waitUntil(outputClosed, {.deadline = Deadline::after(interval), .subject = {}}, timer)) {
    throw ClosedPipe();
  }
}

}  // namespace

int watch(const Args& args) {
  const Target target = openTarget(args, Missing::REFUSE);
  Reporter reporter(args);
  Contents known = args.existing ? Contents() : look(*target.store, args.glob);
  if (!args.json && !args.quiet) {
    complain(str("watching ", args.glob, " at ", target.url), "end it with Ctrl-C");
  }
  while (!reporter.done()) {  // ends when it was told to, by Ctrl-C or with the reader
    Contents now = look(*target.store, args.glob);
    reporter.compare(known, now);
    known = std::move(now);
    if (!reporter.done()) {
      pause(std::max(fromSeconds(args.interval), kLeastInterval));
    }
  }
  return OK;
}

}  // namespace unisono::cli
