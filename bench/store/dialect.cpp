#include "bench/store/dialect.hpp"

#include <array>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "store/tcp/codec.hpp"

namespace unisono::bench {
namespace {

using tcp::Query;
using tcp::RequestWriter;

constexpr std::string_view kCounter = "/bench/counter";
constexpr std::string_view kValue = "/bench/value";
constexpr std::uint32_t kNonce = 1;

/// Of PyTorch's protocol. Its SET has no reply, so an echo is asked for with it; a server of ours
/// has a form that is answered.
Exchange storeExchange(bool native, std::string_view verb, const std::string& value) {
  const std::array<std::string, 1> keys = {std::string(kValue)};
  if (verb == "add") {
    return {RequestWriter().begin(Query::ADD).blob(kCounter).i64(1).bytes(), 8, 0};
  }
  if (verb == "get") {
    return {RequestWriter().begin(Query::GET).blob(kValue).bytes(), 8 + value.size(), 0};
  }
  if (verb == "check") {
    return {RequestWriter().begin(Query::CHECK).keys(keys).bytes(), 1, 0};
  }
  if (native) {
    return {RequestWriter().begin(Query::SET, true).blob(kValue).blob(value).bytes(), 1, 0};
  }
  RequestWriter request;
  request.begin(Query::SET).blob(kValue).blob(value).begin(Query::PING).u32(kNonce);
  return {request.bytes(), 4, 0};
}

/// A command of Redis: its words, each with its length.
std::string redisCommand(std::initializer_list<std::string_view> words) {
  std::string request = str("*", words.size(), "\r\n");
  for (const std::string_view word : words) {
    request += str("$", word.size(), "\r\n", word, "\r\n");
  }
  return request;
}

Exchange redisExchange(std::string_view verb, const std::string& value) {
  if (verb == "add") {
    return {redisCommand({"INCRBY", kCounter, "1"}), 0, 1};
  }
  if (verb == "get") {
    return {redisCommand({"GET", kValue}), 0, 2};
  }
  if (verb == "check") {
    return {redisCommand({"EXISTS", kValue}), 0, 1};
  }
  return {redisCommand({"SET", kValue, value}), 0, 1};
}

}  // namespace

const std::vector<std::string>& verbs() {
  static const std::vector<std::string> all = {"add", "get", "set", "check"};
  return all;
}

Exchange greeting(Dialect dialect) {
  if (dialect == Dialect::REDIS) {
    return {redisCommand({"PING"}), 0, 1};
  }
  RequestWriter hello;
  hello.begin(Query::VALIDATE).u32(tcp::kMagic).begin(Query::PING).u32(kNonce);
  return {hello.bytes(), 4, 0};
}

Exchange exchange(Dialect dialect, std::string_view verb, std::size_t valueSize) {
  const std::string value(valueSize, 'v');
  return dialect == Dialect::REDIS ? redisExchange(verb, value)
                                   : storeExchange(dialect == Dialect::UNISONO, verb, value);
}

}  // namespace unisono::bench
