// store_driver: unisono's stores, driven by a test through pipes.
//
// Requests come on standard input, one per line; each runs on a thread of its own, so that a call
// that waits holds up nobody. Answers go to standard output in the order in which they are ready:
//
//   1 open s tcp host=127.0.0.1 port=0 server=libuv   ->  1 ok 43571
//   2 set s x6b6579 x76616c7565                       ->  2 ok
//   3 get s x6b6579                                   ->  3 ok x76616c7565
//   4 wait s 100 x6e6f7065                            ->  4 error DistStoreError TIMEOUT x756e69…
//
// A request is a number, a verb, the name of a store and the verb's arguments. Bytes are an "x"
// and hexadecimal digits; a timeout is milliseconds, or "-" for the store's own. The end of the
// input destroys the stores and ends the program. torch_driver.py speaks the same for PyTorch.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include "unisono/base/error.hpp"
#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

namespace {

using std::chrono::milliseconds;
using unisono::Bytes;
using unisono::Store;
using unisono::StorePtr;
using unisono::TCPStore;

/// What is said after "ok".
using Fields = std::vector<std::string>;

std::string encode(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "x";
  text.reserve(1 + 2 * bytes.size());
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

std::string encode(const Bytes& bytes) {
  return encode(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

template <typename Range>
Fields encodeAll(const Range& items) {
  Fields fields;
  for (const auto& item : items) {
    fields.push_back(encode(item));
  }
  return fields;
}

template <typename Number>
Number parse(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    throw std::invalid_argument("not a number: " + std::string(text));
  }
  return number;
}

std::string decode(std::string_view text) {
  if (text.empty() || text.front() != 'x' || text.size() % 2 == 0) {
    throw std::invalid_argument("not bytes: " + std::string(text.substr(0, 64)));
  }
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 1; i < text.size(); i += 2) {
    bytes += static_cast<char>(16 * value(text[i]) + value(text[i + 1]));
  }
  return bytes;
}

/// The words of a request, taken one by one.
class Words {
 public:
  explicit Words(std::string line) : line_(std::move(line)) {}

  bool more() const { return at_ < line_.size(); }

  std::string_view word() {
    if (!more()) {
      throw std::invalid_argument("an argument is missing");
    }
    const std::size_t end = std::min(line_.find(' ', at_), line_.size());
    const std::string_view word = std::string_view(line_).substr(at_, end - at_);
    at_ = end + 1;
    return word;
  }

  std::int64_t number() { return parse<std::int64_t>(word()); }
  std::string text() { return decode(word()); }

  Bytes bytes() {
    const std::string text = this->text();
    return {text.begin(), text.end()};
  }

  std::vector<std::string> texts() {
    std::vector<std::string> all;
    while (more()) {
      all.push_back(text());
    }
    return all;
  }

  milliseconds timeout(const Store& store) {
    const std::string_view word = this->word();
    return word == "-" ? store.timeout() : milliseconds(parse<std::int64_t>(word));
  }

 private:
  const std::string line_;
  std::size_t at_ = 0;
};

/// The stores by name.
class Stores {
 public:
  void put(const std::string& name, StorePtr store) {
    const std::scoped_lock lock(mutex_);
    stores_.insert_or_assign(name, std::move(store));
  }

  StorePtr at(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    return stores_.at(name);
  }

  /// The caller destroys it, without holding up others.
  StorePtr take(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    return std::move(stores_.extract(name).mapped());
  }

  std::map<std::string, StorePtr> takeAll() {
    const std::scoped_lock lock(mutex_);
    return std::move(stores_);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, StorePtr> stores_;
};

StorePtr openTcp(Words& words) {
  unisono::TCPStoreOptions options;
  std::string host = "127.0.0.1";
  while (words.more()) {
    const std::string_view option = words.word();
    const std::size_t equals = std::min(option.find('='), option.size() - 1);
    const std::string_view name = option.substr(0, equals);
    const std::string_view value = option.substr(equals + 1);
    if (name == "host") {
      host = value;
    } else if (name == "port") {
      options.port = parse<std::uint16_t>(value);
    } else if (name == "server") {
      options.isServer = true;
      options.useLibUV = value == "libuv";
    } else if (name == "workers") {
      options.numWorkers = parse<std::size_t>(value);
    } else if (name == "wait") {
      options.waitWorkers = value == "1";
    } else if (name == "timeout") {
      options.timeout = milliseconds(parse<std::int64_t>(value));
    } else if (name == "tenant") {
      options.multiTenant = value == "1";
    } else if (name == "fd") {
      options.masterListenFd = parse<int>(value);
    } else if (name == "libuv") {
      options.useLibUV = value == "1";
    } else {
      throw std::invalid_argument("no such option: " + std::string(option));
    }
  }
  return std::make_shared<TCPStore>(host, options);
}

StorePtr openStore(Stores& stores, Words& words) {
  const std::string_view kind = words.word();
  if (kind == "tcp") {
    return openTcp(words);
  }
  if (kind == "hash") {
    return std::make_shared<unisono::HashStore>();
  }
  if (kind == "file") {
    const std::string path = words.text();
    return std::make_shared<unisono::FileStore>(path, static_cast<int>(words.number()));
  }
  if (kind == "prefix") {
    const std::string prefix = words.text();
    return std::make_shared<unisono::PrefixStore>(prefix, stores.at(std::string(words.word())));
  }
  if (kind == "clone") {
    return stores.at(std::string(words.word()))->clone();
  }
  throw std::invalid_argument("no such kind of store: " + std::string(kind));
}

/// What only a TCPStore can tell: port, which loop, whether the server is one of ours, its text.
Fields describe(const Store& store) {
  const auto& tcp = dynamic_cast<const TCPStore&>(store);
  return {std::to_string(tcp.port()), tcp.isLibUvBackend() ? "1" : "0",
          tcp.hasNativeServer() ? "1" : "0", encode(tcp.repr())};
}

Fields compareSet(Store& store, Words& words) {
  const std::string key = words.text();
  const Bytes expected = words.bytes();
  const Bytes desired = words.bytes();
  return {encode(store.compareSet(key, expected, desired))};
}

Fields multiSet(Store& store, Words& words) {
  std::vector<std::string> keys(static_cast<std::size_t>(words.number()));
  for (std::string& key : keys) {
    key = words.text();
  }
  std::vector<Bytes> values;
  while (words.more()) {
    values.push_back(words.bytes());
  }
  store.multiSet(keys, values);
  return {};
}

using Verb = Fields (*)(Store&, Words&);

/// One row per operation of a Store, called as in Python.
const std::map<std::string_view, Verb> kVerbs = {
    {"set",
     [](Store& store, Words& words) -> Fields {
       const std::string key = words.text();
       store.set(key, words.bytes());
       return {};
     }},
    {"get", [](Store& store, Words& words) -> Fields { return {encode(store.get(words.text()))}; }},
    {"compare_set", compareSet},
    {"add",
     [](Store& store, Words& words) -> Fields {
       const std::string key = words.text();
       return {std::to_string(store.add(key, words.number()))};
     }},
    {"delete_key",
     [](Store& store, Words& words) -> Fields {
       return {store.deleteKey(words.text()) ? "1" : "0"};
     }},
    {"delete_prefix",
     [](Store& store, Words& words) -> Fields {
       return {std::to_string(store.deletePrefix(words.text()))};
     }},
    {"check",
     [](Store& store, Words& words) -> Fields { return {store.check(words.texts()) ? "1" : "0"}; }},
    {"wait",
     [](Store& store, Words& words) -> Fields {
       const milliseconds timeout = words.timeout(store);
       store.wait(words.texts(), timeout);
       return {};
     }},
    {"num_keys", [](Store& store, Words&) -> Fields { return {std::to_string(store.numKeys())}; }},
    {"list_keys", [](Store& store, Words&) -> Fields { return encodeAll(store.listKeys()); }},
    {"append",
     [](Store& store, Words& words) -> Fields {
       const std::string key = words.text();
       store.append(key, words.bytes());
       return {};
     }},
    {"multi_get",
     [](Store& store, Words& words) -> Fields { return encodeAll(store.multiGet(words.texts())); }},
    {"multi_set", multiSet},
    {"queue_push",
     [](Store& store, Words& words) -> Fields {
       const std::string key = words.text();
       store.queuePush(key, words.bytes());
       return {};
     }},
    {"queue_pop",
     [](Store& store, Words& words) -> Fields {
       const std::string key = words.text();
       return {encode(store.queuePop(key, words.number() != 0))};
     }},
    {"queue_len",
     [](Store& store, Words& words) -> Fields {
       return {std::to_string(store.queueLen(words.text()))};
     }},
    {"barrier",
     [](Store& store, Words& words) -> Fields {
       const std::string key = words.text();
       const std::int64_t worldSize = words.number();
       store.barrier(key, worldSize, words.timeout(store));
       return {};
     }},
    {"timeout",
     [](Store& store, Words&) -> Fields { return {std::to_string(store.timeout().count())}; }},
    {"set_timeout",
     [](Store& store, Words& words) -> Fields {
       store.setTimeout(milliseconds(words.number()));
       return {};
     }},
    {"has_extended_api",
     [](Store& store, Words&) -> Fields { return {store.hasExtendedApi() ? "1" : "0"}; }},
    {"describe", [](Store& store, Words&) -> Fields { return describe(store); }},
};

Fields execute(Stores& stores, std::string_view verb, Words& words) {
  const std::string name(words.word());
  if (verb == "open") {
    const StorePtr store = openStore(stores, words);
    stores.put(name, store);
    const auto* tcp = dynamic_cast<const TCPStore*>(store.get());
    return tcp == nullptr ? Fields{} : Fields{std::to_string(tcp->port())};
  }
  if (verb == "destroy") {
    stores.take(name).reset();
    return {};
  }
  return kVerbs.at(verb)(*stores.at(name), words);
}

template <typename Type>
bool is(const unisono::DistError& error) {
  return dynamic_cast<const Type*>(&error) != nullptr;
}

/// The name of the most derived class that a caller may want to tell apart.
std::string className(const unisono::DistError& error) {
  if (is<unisono::NotSupportedError>(error)) {
    return "NotSupportedError";
  }
  if (is<unisono::UsageError>(error)) {
    return "UsageError";
  }
  if (is<unisono::DistQueueEmptyError>(error)) {
    return "DistQueueEmptyError";
  }
  if (is<unisono::DistStoreError>(error)) {
    return "DistStoreError";
  }
  if (is<unisono::DistAuthError>(error)) {
    return "DistAuthError";
  }
  return is<unisono::DistNetworkError>(error) ? "DistNetworkError" : "DistError";
}

std::string answer(Stores& stores, const std::string& line) {
  Words words(line);
  std::string reply(words.word());
  try {
    const std::string_view verb = words.word();
    const Fields fields = execute(stores, verb, words);
    reply += " ok";
    for (const std::string& field : fields) {
      reply += " " + field;
    }
  } catch (const unisono::DistError& error) {
    reply += " error " + className(error) + " " + std::string(unisono::token(error.reason())) +
             " " + encode(error.what());
  } catch (const std::exception& error) {
    reply += " error exception - " + encode(error.what());
  }
  return reply + "\n";
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);  // else a line of megabytes is read byte by byte
  Stores stores;
  std::mutex output;
  for (std::string line; std::getline(std::cin, line);) {
    std::thread([&stores, &output, line] {
      const std::string reply = answer(stores, line);
      const std::scoped_lock lock(output);
      std::fwrite(reply.data(), 1, reply.size(), stdout);
      std::fflush(stdout);
    }).detach();
  }
  stores.takeAll().clear();
  // Calls that still wait are not waited for; they hold their stores, `stores` and `output`.
  ::_exit(EXIT_SUCCESS);
}
