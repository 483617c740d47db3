// Dialect: the requests of the store's load, in the languages of the servers that are compared.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::bench {

enum class Dialect : std::uint8_t { UNISONO, TORCH, REDIS };

/// A request, and how the end of its reply is found: after so many bytes, or so many lines.
struct Exchange {
  std::string request;
  std::size_t replyBytes = 0;
  std::size_t replyLines = 0;
};

/// "add", "get", "set" and "check", as `--verbs` takes them.
const std::vector<std::string>& verbs();

/// What a new connection says first.
Exchange greeting(Dialect dialect);

/// One request of `verb`. What "get" and "check" ask for must have been set.
Exchange exchange(Dialect dialect, std::string_view verb, std::size_t valueSize);

}  // namespace unisono::bench
