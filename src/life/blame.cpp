#include "life/blame.hpp"

#include <utility>

#include "base/str.hpp"

namespace unisono {
namespace {

std::string remedy(Reason reason) {
  switch (reason) {
    case Reason::PEER_DEAD:
      return "look at that rank's output and at the kernel's log for why it ended, then start anew";
    case Reason::PEER_LEFT:
      return "let every rank make the same calls before it leaves the group";
    case Reason::TIMEOUT:
      return "see what the ranks waited for are doing; raise the timeout if they are slow";
    case Reason::MISMATCH:
      return "make the same calls in the same order on all ranks";
    case Reason::USAGE:
      return "give that rank arguments that make sense";
    case Reason::ABORTED:
      return "make a new group to go on";
    default:
      return "";
  }
}

}  // namespace

void throwCause(const AbortCause& cause, ErrorFacts facts, std::vector<int> globalCulprits) {
  facts.reason = cause.reason;
  facts.what = cause.text;
  facts.hint = remedy(cause.reason);
  facts.culprits = std::move(globalCulprits);
  if (cause.reason == Reason::TIMEOUT) {
    throw DistTimeoutError(std::move(facts));
  }
  throw DistBackendError(std::move(facts));
}

}  // namespace unisono
