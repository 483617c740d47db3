#include "capi/error.hpp"

#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/version.hpp"

namespace unisono::capi {
namespace {

/// An error, and what its fields point to.
struct Kept {
  ErrorFacts facts;
  std::string text;
  unisono_error view{};
};

constexpr unisono_status statusOf(Reason reason) noexcept {
  return static_cast<unisono_status>(static_cast<int>(reason) + 1);  // 0 is success
}
static_assert(statusOf(Reason::PEER_DEAD) == UNISONO_PEER_DEAD);
static_assert(statusOf(Reason::FORKED) == UNISONO_FORKED);
static_assert(statusOf(Reason::STORE_LOST) == UNISONO_STORE_LOST);
static_assert(statusOf(Reason::USAGE) == UNISONO_USAGE);

unisono_error blank(unisono_status status, const char* text) noexcept {
  return {.status = status,
          .text = text,
          .what = text,
          .hint = "",
          .op = "",
          .group = "",
          .host = "",
          .seq = -1,
          .pid = -1,
          .elapsed_ms = -1,
          .rank = -1,
          .world = -1,
          .culprits = nullptr,
          .culprit_count = 0};
}

thread_local Kept kept{.facts = {}, .text = {}, .view = blank(UNISONO_OK, "")};

unisono_status keep(unisono_status status, const DistError& error) {
  Kept next{.facts = error.facts(), .text = error.what(), .view = {}};
  kept.facts = std::move(next.facts);
  kept.text = std::move(next.text);
  const ErrorFacts& facts = kept.facts;
  kept.view = {.status = status,
               .text = kept.text.c_str(),
               .what = facts.what.c_str(),
               .hint = facts.hint.c_str(),
               .op = facts.op.c_str(),
               .group = facts.group.c_str(),
               .host = facts.host.c_str(),
               .seq = facts.seq.value_or(-1),
               .pid = facts.pid,
               .elapsed_ms = facts.elapsed ? facts.elapsed->count() : -1,
               .rank = facts.rank,
               .world = facts.world,
               .culprits = facts.culprits.data(),
               .culprit_count = facts.culprits.size()};
  return status;
}

unisono_status keep(unisono_status status, const char* text) noexcept {
  kept.view = blank(status, text);
  return status;
}

}  // namespace

unisono_status keepError() noexcept {
  try {
    try {
      throw;
    } catch (const DistQueueEmptyError& error) {
      return keep(UNISONO_QUEUE_EMPTY, error);
    } catch (const DistError& error) {
      return keep(statusOf(error.reason()), error);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return keep(UNISONO_USAGE, UsageError({.what = error.what()}));
    }
  } catch (const std::bad_alloc&) {
    return keep(UNISONO_RESOURCE, "unisono: there is no memory left. [RESOURCE]");
  } catch (...) {
    return keep(UNISONO_USAGE, "unisono: a callback has thrown something unknown. [USAGE]");
  }
}

}  // namespace unisono::capi

const unisono_error* unisono_last_error() {
  return &unisono::capi::kept.view;
}

const char* unisono_status_name(unisono_status status) {
  if (status == UNISONO_OK) {
    return "OK";
  }
  if (status == UNISONO_QUEUE_EMPTY) {
    return "QUEUE_EMPTY";
  }
  const auto number = static_cast<int>(status);
  const bool exists = number >= UNISONO_PEER_DEAD && number <= UNISONO_USAGE;
  // A token is a literal: it ends with a 0.
  return exists ? unisono::token(static_cast<unisono::Reason>(number - 1)).data() : "";
}

const char* unisono_version() {
  return UNISONO_VERSION_STRING;
}
