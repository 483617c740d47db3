#include "backend/native/monitored_barrier.hpp"

#include <algorithm>
#include <utility>

#include "unisono/work/op_type.hpp"

#include "base/str.hpp"

namespace unisono {
namespace {

constexpr int kCollector = 0;                       // the rank that hears all others
constexpr std::uint32_t kSignature = 0x6D6F'6E62U;  // it does not match a plain barrier

std::string joined(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) {
    names.push_back(str(rank));
  }
  return unisono::join(names, ", ");
}

std::string missingText(const std::vector<int>& ranks, Milliseconds timeout) {
  return str("[Rank 0]: Rank", ranks.size() > 1 ? "s " : " ", joined(ranks),
             " failed to pass monitoredBarrier in ", timeout.count(), " ms");
}

std::string timedOutText(const std::vector<int>& heard, Milliseconds timeout) {
  return str("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms. ",
             heard.empty() ? "No ranks successfully processed in monitoredBarrier"
                           : str("Successfully processed ranks: ", joined(heard)));
}

/// What rank 0 has to say once it has heard whom it could.
struct Verdict {
  std::string text;  // empty: everybody has come
  std::vector<int> missing;
};

/// Rank 0: hears one rank after the other.
Verdict collect(shm::Arena& arena, const MonitoredBarrierOptions& options) {
  Deadline deadline = Deadline::after(options.timeout);
  std::vector<int> heard;
  std::vector<int> missing;
  for (int peer = kCollector + 1; peer < arena.size(); ++peer) {
    if (options.waitAllRanks) {
      deadline = Deadline::after(options.timeout);
    } else if (deadline.expired()) {
      return {timedOutText(heard, options.timeout), {}};
    }
    const bool came = arena.awaitArrival(peer, 0, deadline);
    (came ? heard : missing).push_back(peer);
    if (!came && !options.waitAllRanks) {
      break;
    }
  }
  if (missing.empty()) {
    return {};
  }
  return {str(missingText(missing, options.timeout), ". ", arena.wait().whoIsMissing()), missing};
}

[[noreturn]] void throwFacts(ErrorFacts facts) {
  if (facts.reason == Reason::TIMEOUT) {
    throw DistTimeoutError(std::move(facts));
  }
  throw DistBackendError(std::move(facts));
}

/// Rank 0's side; throws what ended the group, whoever told it. `missing`: those it blames itself.
void runCollector(shm::Arena& arena, const MonitoredBarrierOptions& options,
                  std::vector<int>& missing) {
  Verdict verdict = collect(arena, options);
  if (verdict.text.empty()) {
    arena.publishResult(0);
    return;
  }
  const AbortCause mine{.reason = Reason::TIMEOUT,
                        .culprits = verdict.missing,
                        .reporter = kCollector,
                        .seq = arena.seq(),
                        .text = std::move(verdict.text)};
  const AbortCause counts = arena.wait().fail(mine);
  if (counts.reason != mine.reason || counts.reporter != mine.reporter) {
    arena.wait().throwCauseHere(counts);
  }
  missing = std::move(verdict.missing);
  // Not the one of the record, which has less room than a list of many ranks may need.
  arena.wait().throwCauseHere(mine);
}

/// What rank 0 throws: it says whom it blames. `error` is what ended the group.
ErrorFacts asCollector(ErrorFacts error, const MonitoredBarrierOptions& options,
                       const std::vector<int>& missing) {
  const std::vector<int>& world = options.globalRanks;
  if (!missing.empty()) {
    return error;  // names them already
  }
  const int blamed = error.culprits.empty() ? -1 : error.culprits.front();
  const auto culprit = std::find(world.begin(), world.end(), blamed);
  const int rank = static_cast<int>(culprit - world.begin());
  if (culprit != world.end() && rank != kCollector) {
    error.what = str(missingText({rank}, options.timeout), ". Original exception: ", error.what);
  }
  return error;
}

/// The same where ranks share no memory: the error names all who have not come.
ErrorFacts asCollector(ErrorFacts error, const MonitoredBarrierOptions& options) {
  if (error.reason != Reason::TIMEOUT) {
    return asCollector(std::move(error), options, {});
  }
  std::vector<int> missing;
  for (const int culprit : error.culprits) {
    const std::vector<int>& world = options.globalRanks;
    const auto found = std::find(world.begin(), world.end(), culprit);
    missing.push_back(static_cast<int>(found - world.begin()));
  }
  if (!options.waitAllRanks && missing.size() > 1) {
    missing.resize(1);
    error.culprits.resize(1);
  }
  error.what = str(missingText(missing, options.timeout), ". ", error.what);
  return error;
}

/// Rank 0 hears everybody, then everybody hears rank 0.
void meetAtCollector(Communicator& comm) {
  std::byte word{};
  if (comm.rank() != kCollector) {
    comm.send({kCollector, {&word, 1}});
    comm.receive({.rank = kCollector, .block = {&word, 1}});
    return;
  }
  std::vector<SendTo> out;
  std::vector<RecvFrom> in;
  const std::span<std::byte> words = comm.scratch(static_cast<std::size_t>(comm.size()));
  for (int peer = kCollector + 1; peer < comm.size(); ++peer) {
    out.push_back({peer, {&word, 1}});
    in.push_back({.rank = peer, .block = words.subspan(static_cast<std::size_t>(peer), 1)});
  }
  comm.transfer({}, in);
  comm.transfer(out, {});
}

/// What another rank throws.
ErrorFacts asMember(ErrorFacts error, int rank) {
  error.what = str("Rank ", rank,
                   " successfully reached monitoredBarrier, but received errors while waiting for "
                   "send/recv from rank 0. Please check rank 0 logs for faulty rank. Original "
                   "exception: ",
                   error.what);
  return error;
}

}  // namespace

void monitoredBarrier(shm::Arena& arena, const MonitoredBarrierOptions& options) {
  const bool collects = arena.rank() == kCollector;
  std::vector<int> missing;
  try {
    arena.begin({.name = kMonitoredBarrier,
                 .signature = kSignature,
                 .opType = static_cast<std::uint8_t>(OpType::BARRIER),
                 .root = kCollector,
                 .timeout = options.timeout});
    if (collects) {
      runCollector(arena, options, missing);
    } else {
      arena.arrive(0);
      arena.awaitResult(kCollector, 0);
    }
    arena.end(true);  // rank 0 has heard everybody, and the others rank 0
  } catch (const DistError& error) {
    arena.abandon();
    throwFacts(collects ? asCollector(error.facts(), options, missing)
                        : asMember(error.facts(), arena.rank()));
  } catch (...) {  // an interrupt
    arena.abandon();
    throw;
  }
}

void monitoredBarrier(Communicator& comm, const MonitoredBarrierOptions& options) {
  const bool collects = comm.rank() == kCollector;
  bool done = false;
  try {
    comm.begin({.name = kMonitoredBarrier,
                .signature = kSignature,
                .opType = static_cast<std::uint8_t>(OpType::BARRIER),
                .root = kCollector,
                .timeout = options.timeout});
    meetAtCollector(comm);
    done = true;
    comm.end(true);
  } catch (const DistError& error) {
    comm.end(done);
    throwFacts(collects ? asCollector(error.facts(), options)
                        : asMember(error.facts(), comm.rank()));
  } catch (...) {  // an interrupt
    comm.end(done);
    throw;
  }
}

}  // namespace unisono
