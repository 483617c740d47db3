// The verbs of `unisono store`: what each does once the command line has been understood.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/store/store.hpp"

#include "base/clock.hpp"
#include "exit_code.hpp"
#include "manner.hpp"
#include "value.hpp"

namespace unisono::cli {

/// What the command line says; each verb looks at its part.
struct Args : Manner {
  // All of them.
  std::string endpoint;  // empty: from the environment
  std::optional<double> timeout;

  // Those that take or show values.
  bool hex = false;
  bool base64 = false;
  bool raw = false;
  bool literal = false;

  std::string key;                // where there is one
  std::vector<std::string> keys;  // where there may be several
  std::string value;              // set, cas
  std::string expected;           // cas
  std::int64_t number = 0;
  std::string glob = "*";
  std::string file;
  std::optional<double> wait;
  bool prefix = false;
  bool force = false;
  bool skipQueues = false;
  bool existing = false;
  double interval = 0.5;
  std::uint64_t count = 0;  // 0: no end

  Form form() const {
    return hex ? Form::HEX : base64 ? Form::BASE64 : raw ? Form::RAW : Form::TEXT;
  }
};

// Each returns the exit code, and throws what the store throws.
int ping(const Args& args);
int stats(const Args& args);
int keys(const Args& args);
int get(const Args& args);
int set(const Args& args);
int add(const Args& args);
int cas(const Args& args);
int del(const Args& args);
int wait(const Args& args);
int watch(const Args& args);
int dump(const Args& args);
int load(const Args& args);

// Serving (serve.cpp).
struct ServeArgs : Manner {
  std::string host = "127.0.0.1";
  std::uint16_t port = 29500;
  std::string loop = "libuv";
};
int serve(const ServeArgs& args);

/// A store that a verb works on.
struct Target {
  std::string url;
  StorePtr store;
};

/// Whether a file:// endpoint without a file gets one.
enum class Missing : std::uint8_t { REFUSE, CREATE };

/// How long verbs take at most, unless told otherwise.
constexpr Milliseconds kPatience = std::chrono::seconds(5);

// What verbs share (access.cpp).
Target openTarget(const Args& args, Missing missing, Milliseconds patience = kPatience);

/// Who keeps the data: "unisono" or "other" for a server, or "file".
std::string serverKind(Store& store);

/// What a server of ours tells of itself, as JSON; empty for others.
std::string serverStats(Store& store);

/// How many elements the queue `key` has; 0 where there are no queues.
std::int64_t queueLength(Store& store, const std::string& key);

/// The value of `key` if it has one now.
std::optional<std::string> tryGet(Store& store, const std::string& key);

/// The values of `keys` that have one now.
std::vector<std::optional<std::string>> tryGetAll(Store& store, std::span<const std::string> keys);

/// The keys that match `glob`, sorted.
std::vector<std::string> keysLike(Store& store, const std::string& glob);

/// The bytes that a word of the command line stands for: itself, a file (@name), standard input
/// (-), each as --hex and --base64 say.
std::string valueOf(const Args& args, const std::string& word);

}  // namespace unisono::cli
