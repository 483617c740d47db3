// unisono store ping, stats, keys: a look at a server.

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/str.hpp"
#include "terminal.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

using Json = nlohmann::ordered_json;

double millisecondsSince(TimePoint start) {
  const auto spent = systemClock().now() - start;
  return std::chrono::duration<double, std::milli>(spent).count();
}

std::string describeKind(const std::string& kind) {
  return kind == "unisono" ? "a server of unisono"
         : kind == "file"  ? "a file"
                           : "a server of another kind, such as PyTorch's";
}

std::string number(const Json& value) {
  return value.dump();
}

void printStats(const Json& all) {
  const Json& limits = all["limits"];
  const auto bytes = [](const Json& value) { return formatBytes(value.get<std::uint64_t>()); };
  printLine(
      str("uptime       ", formatDuration(Milliseconds(all["uptime_ms"].get<std::int64_t>()))));
  printLine(str("keys         ", number(all["keys"]), " of ", number(limits["keys"])));
  printLine(str("memory       ", bytes(all["bytes"]), " of ", bytes(limits["bytes"])));
  printLine(str("connections  ", number(all["connections"]), " of ", number(limits["connections"]),
                ", ", number(all["accepted"]), " since the start"));
  if (all.contains("queues")) {  // not told by servers before 0.1
    printLine(
        str("queues       ", number(all["queues"]), " with ", number(all["queued"]), " elements"));
  }
  printLine(str("waits        ", number(all["waits"])));
  printLine(str("limits       key ", bytes(limits["key_bytes"]), ", value ",
                bytes(limits["value_bytes"]), ", request ", bytes(limits["request_bytes"]), ", ",
                number(limits["keys_per_request"]), " keys a request"));
  std::vector<std::string> verbs;
  for (const auto& [name, count] : all["requests"].items()) {
    if (count != 0) {
      verbs.push_back(str(name, " ", number(count)));
    }
  }
  printLine(str("requests     ", join(verbs, ", ", verbs.size())));
}

}  // namespace

int ping(const Args& args) {
  const TimePoint start = systemClock().now();
  const Target target = openTarget(args, Missing::REFUSE);
  const double connect = millisecondsSince(start);
  const TimePoint asked = systemClock().now();
  static_cast<void>(target.store->numKeys());
  const double roundTrip = millisecondsSince(asked);
  const std::string kind = serverKind(*target.store);
  if (args.json) {
    const Json document = {{"schema", "unisono-store-ping/1"},
                           {"endpoint", target.url},
                           {"server", kind},
                           {"connect_ms", connect},
                           {"round_trip_ms", roundTrip}};
    printLine(document.dump());
  } else if (!args.quiet) {
    const auto micros = static_cast<std::int64_t>(roundTrip * 1000);
    printLine(str(colored(Color::GREEN, "answers"), ": ", printable(target.url), " in ", micros,
                  " µs (", describeKind(kind), ")"));
  }
  return OK;
}

int stats(const Args& args) {
  const Target target = openTarget(args, Missing::REFUSE);
  Json document = {{"schema", "unisono-store-stats/1"},
                   {"endpoint", target.url},
                   {"server", serverKind(*target.store)}};
  const std::string text = serverStats(*target.store);
  const Json told = text.empty() ? Json() : Json::parse(text);
  if (told.is_null()) {
    document["keys"] = target.store->numKeys();
  } else {
    document.update(told);
  }
  if (args.json) {
    printLine(document.dump());
    return OK;
  }
  if (!told.is_null()) {
    printStats(document);
    return OK;
  }
  printLine(str("keys         ", number(document["keys"])));
  if (!args.quiet) {
    complain(
        str("more is not known: this is ", describeKind(document["server"].get<std::string>())),
        "connections, requests and limits are told by unisono store serve");
  }
  return OK;
}

int keys(const Args& args) {
  const Target target = openTarget(args, Missing::REFUSE);
  std::vector<std::string> found = keysLike(*target.store, args.glob);
  if (!args.json) {
    for (const std::string& key : found) {
      printLine(printable(key));
    }
    return OK;
  }
  for (std::string& key : found) {
    key = jsonKey(key);
  }
  printLine(
      str("{\"schema\":\"unisono-store-keys/1\",\"keys\":[", join(found, ",", found.size()), "]}"));
  return OK;
}

}  // namespace unisono::cli
