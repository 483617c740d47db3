// unisono store get, set, add, cas, del, wait: one key or a few.

#include <string>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/bytes.hpp"
#include "base/str.hpp"
#include "store/common.hpp"
#include "terminal.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

void printEntry(const Args& args, const std::string& key, const std::string& value) {
  if (args.json) {
    printLine(str("{", jsonFields(key, &value, args.form()), "}"));
  } else if (args.form() == Form::RAW) {
    print(value);
  } else {
    printLine(shown(value, args.form()));
  }
}

int reportMissing(const Args& args, const std::string& key, std::int64_t queued) {
  if (args.json) {
    printLine(str("{", jsonFields(key, nullptr, args.form()), "}"));
  }
  if (queued > 0) {
    complain(str("the key '", shownKey(key), "' has no value: it is a queue with ", queued,
                 queued == 1 ? " element" : " elements"),
             "queuePop(), in Python queue_pop(), takes what it holds");
    return FAILURE;
  }
  complain(str("the key '", shownKey(key), "' is not set"),
           "list those that are with unisono store keys, or wait for it with get --wait SECONDS");
  return FAILURE;
}

}  // namespace

int get(const Args& args) {
  const Target target = openTarget(args, Missing::REFUSE);
  if (args.wait) {
    target.store->wait({args.key}, fromSeconds(*args.wait));
  }
  const std::optional<std::string> value = tryGet(*target.store, args.key);
  if (!value) {
    return reportMissing(args, args.key, queueLength(*target.store, args.key));
  }
  printEntry(args, args.key, *value);
  return OK;
}

int set(const Args& args) {
  const std::string value = valueOf(args, args.value);
  const Target target = openTarget(args, Missing::CREATE);
  target.store->set(args.key, value);
  if (args.json) {
    printLine(str("{\"key\":", jsonKey(args.key), ",\"bytes\":", value.size(), "}"));
  } else if (args.verbose > 0) {
    printLine(str("set ", printable(args.key), " to ", value.size(), " bytes"));
  }
  return OK;
}

int add(const Args& args) {
  const Target target = openTarget(args, Missing::CREATE);
  const std::int64_t sum = target.store->add(args.key, args.number);
  printLine(args.json ? str("{\"key\":", jsonKey(args.key), ",\"value\":", sum, "}") : str(sum));
  return OK;
}

namespace {

/// Whether `swap` stored the new value. Where the store does not tell, the value before is all
/// there is to go by: two callers that want the same at one moment may both take it for theirs.
bool wasStored(const Store::Swap& swap, const std::optional<std::string>& before,
               const std::string& expected, const std::string& desired) {
  if (swap.stored) {
    return *swap.stored;
  }
  const bool already = before == desired && expected != desired;
  const bool missing = !before && !expected.empty() && expected == desired;
  return !already && !missing;
}

}  // namespace

int cas(const Args& args) {
  if (!args.literal && args.expected == "-" && args.value == "-") {
    throw UsageError({.reason = Reason::USAGE,
                      .what = "standard input cannot be both OLD and NEW",
                      .hint = "give one of them in a file, @FILE, or say --literal"});
  }
  const std::string expected = valueOf(args, args.expected);
  const std::string desired = valueOf(args, args.value);
  const Target target = openTarget(args, Missing::CREATE);
  const std::optional<std::string> before = tryGet(*target.store, args.key);
  const Store::Swap swap = target.store->trySwap(args.key, asBytes(expected), asBytes(desired));
  const bool swapped = wasStored(swap, before, expected, desired);
  const std::optional<std::string> now = swapped ? desired : tryGet(*target.store, args.key);
  if (args.json) {
    const std::string fields = jsonFields(args.key, now ? &*now : nullptr, args.form());
    printLine(str("{", fields, ",\"swapped\":", swapped ? "true" : "false", "}"));
  } else if (now) {
    printEntry(args, args.key, *now);
  }
  if (!swapped) {
    complain(now ? str("the key '", shownKey(args.key), "' was left alone: its value was another")
                 : str("the key '", shownKey(args.key), "' was left alone: it is not set"),
             now ? "" : "an empty OLD stands for a key that is not set");
  }
  return swapped ? OK : FAILURE;
}

int del(const Args& args) {
  const Target target = openTarget(args, Missing::REFUSE);
  std::int64_t deleted = 0;
  std::vector<std::string> missing;
  for (const std::string& key : args.keys) {
    if (args.prefix) {
      deleted += target.store->deletePrefix(key);
    } else if (target.store->deleteKey(key)) {
      ++deleted;
    } else {
      missing.push_back(str("'", shownKey(key), "'"));
    }
  }
  if (args.json) {
    printLine(str("{\"deleted\":", deleted, "}"));
  } else if (args.prefix || args.verbose > 0) {
    printLine(str("deleted ", deleted, deleted == 1 ? " key" : " keys"));
  }
  if (!missing.empty()) {
    complain(str("not set, so not deleted: ", join(missing, ", ")));
    return FAILURE;
  }
  return OK;
}

int wait(const Args& args) {
  const TimePoint start = systemClock().now();
  const Milliseconds patience = args.timeout ? fromSeconds(*args.timeout) : defaultTimeout();
  const Deadline deadline = Deadline::after(patience);
  const Target target = openTarget(args, Missing::CREATE, patience);
  target.store->wait(args.keys, deadline.remaining());
  if (args.json) {
    std::vector<std::string> names;
    for (const std::string& key : args.keys) {
      names.push_back(jsonKey(key));
    }
    printLine(str("{\"keys\":[", join(names, ",", names.size()),
                  "],\"waited_ms\":", elapsedSince(start).count(), "}"));
  } else if (args.verbose > 0) {
    printLine(str("there after ", formatDuration(elapsedSince(start))));
  }
  return OK;
}

}  // namespace unisono::cli
