// RootRecord: what rank 0 of a group tells the others through the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "unisono/base/error.hpp"

#include "base/process.hpp"

namespace unisono {

struct RootRecord {
  std::uint32_t version = 0;
  std::uint32_t size = 0;  // of the group
  std::string host;        // hostId()
  std::string process;     // encodeMark()
  std::string socket;      // of its monitor; empty: the group is formed by TCP
  std::string cookie;      // of this group
  // Where rank 0 cannot form it, or has died before all had come: why not. The socket is empty
  // then, and the cookie is that of the group, if rank 0 has announced one before.
  Reason reason = Reason::ABORTED;
  std::string refusal = {};

  std::string encode() const;
  static std::optional<RootRecord> decode(std::string_view bytes);
};

/// What another rank tells rank 0, through the store, when it cannot join.
struct Decline {
  std::uint32_t rank = 0;
  Reason reason = Reason::ABORTED;
  std::string text;

  std::string encode() const;
  static std::optional<Decline> decode(std::string_view bytes);
};

/// What another rank says when it asks for the memory.
struct JoinRequest {
  std::uint32_t version = 0;
  std::uint32_t size = 0;
  std::uint32_t rank = 0;
  std::string settings;
  std::string process;  // encodeMark()

  std::string encode() const;
  static std::optional<JoinRequest> decode(std::string_view bytes);
};

}  // namespace unisono
