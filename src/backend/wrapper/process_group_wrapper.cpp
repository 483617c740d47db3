#include "unisono/backend/process_group_wrapper.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/wrapper/call_fingerprint.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"

namespace unisono {
namespace {

using Prints = std::vector<CallFingerprint>;

/// How long a wait at the store may leave an abort unnoticed.
constexpr Milliseconds kStoreSlice{100};

const Backend& given(const std::shared_ptr<Backend>& wrapped) {
  UNISONO_CHECK(wrapped != nullptr, "a ProcessGroupWrapper needs a backend to wrap");
  return *wrapped;
}

bool canGather(const Backend& backend) {
  return backend.capabilities().ops.has(OpType::ALLGATHER_BASE) &&
         backend.capabilities().devices.has(DeviceType::CPU);
}

/// As the world counts it.
int globalRank(const Backend& backend, std::size_t rank) {
  const std::vector<int>& known = backend.options().globalRanks;
  return known.empty() ? static_cast<int>(rank) : known.at(rank);
}

/// The ranks that call something else than most do; than the lowest, if nothing is called by most.
std::vector<int> oddOnes(const Backend& backend, const Prints& prints) {
  const auto votes = [&](const CallFingerprint& print) {
    return std::count(prints.begin(), prints.end(), print);
  };
  const auto usual = std::max_element(
      prints.begin(), prints.end(),
      [&](const CallFingerprint& a, const CallFingerprint& b) { return votes(a) < votes(b); });
  std::vector<int> odd;
  for (std::size_t rank = 0; rank < prints.size(); ++rank) {
    if (!(prints[rank] == *usual)) {
      odd.push_back(globalRank(backend, rank));
    }
  }
  return odd;
}

/// The calls that are neither this rank's nor that of `other`, each with one rank that makes it.
std::string furtherCalls(const Backend& backend, const Prints& prints, std::size_t other) {
  std::vector<CallFingerprint> told = {prints[static_cast<std::size_t>(backend.rank())],
                                       prints[other]};
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < prints.size(); ++rank) {
    if (std::find(told.begin(), told.end(), prints[rank]) == told.end()) {
      told.push_back(prints[rank]);
      texts.push_back(str(" Rank ", globalRank(backend, rank),
                          " is running collective: ", prints[rank].describe(), "."));
    }
  }
  return join(texts, "", 4);
}

/// Throws when somebody calls something else than this rank.
void checkAllAlike(const Backend& backend, const CollectiveArgs& args, std::uint64_t seq,
                   const Prints& prints) {
  const auto self = static_cast<std::size_t>(backend.rank());
  const CallFingerprint& mine = prints[self];
  const auto odd = std::find_if(prints.begin(), prints.end(),
                                [&](const CallFingerprint& print) { return !(print == mine); });
  if (odd == prints.end()) {
    return;
  }
  const auto other = static_cast<std::size_t>(odd - prints.begin());
  throw DistBackendError(
      {.reason = Reason::MISMATCH,
       .what = str(
           "Detected mismatch between collectives on ranks. Rank ", globalRank(backend, self),
           " is running collective: ", mine.describe(), ", but Rank ", globalRank(backend, other),
           " is running collective: ", odd->describe(), ".", furtherCalls(backend, prints, other),
           " Collectives differ in the following aspects: ", mine.differences(*odd)),
       .hint = "make the same calls in the same order on all ranks, with tensors of the same "
               "shapes and types; nothing was started, and the group can still be used",
       .op = std::string(opName(args.type)),
       .seq = static_cast<std::int64_t>(seq),
       .group = backend.options().groupName,
       .rank = backend.rank(),
       .world = backend.size(),
       .culprits = oddOnes(backend, prints)});
}

/// `facts` of an error of the round itself, with the call that it was for.
ErrorFacts withCall(ErrorFacts facts, const CollectiveArgs& args, const CallFingerprint& mine) {
  facts.what = str("ProcessGroupWrapper: Monitored Barrier encountered error running collective: ",
                   mine.describe(), ". Error: ", facts.what);
  facts.op = opName(args.type);
  return facts;
}

}  // namespace

/// One round: every rank learns what the others are about to call.
class ProcessGroupWrapper::Round {
 public:
  Round(Backend& backend, std::shared_ptr<Store> store)
      : backend_(backend), store_(canGather(backend) ? nullptr : std::move(store)) {
    UNISONO_CHECK(canGather(backend) || store_, "ranks cannot compare their calls: backend ",
                  backend.name(), " does not gather memory of the CPU, and there is no store");
  }

  /// By rank; empty when the group was aborted meanwhile.
  Prints exchange(const CallFingerprint& mine, const CollectiveArgs& args) {
    return store_ ? byStore(mine, backend_.timeoutOf(args)) : byBackend(mine, args);
  }

  /// Ends rounds that are under way. Relaxed: a flag that is looked at again and again.
  void abort() noexcept { aborted_.store(true, std::memory_order_relaxed); }

 private:
  Prints byBackend(const CallFingerprint& mine, const CollectiveArgs& args) {
    CallFingerprint::Words give = mine.words();
    std::vector<std::int64_t> all(give.size() * size());
    CollectiveArgs gather;
    gather.type = OpType::ALLGATHER_BASE;
    gather.asyncOp = false;
    gather.timeout = args.timeout;
    gather.seq = args.seq;
    gather.inputs = Tensor(std::span<std::int64_t>(give));
    gather.outputs = Tensor(all);
    backend_.start(std::move(gather))->wait();
    Prints prints;
    for (std::size_t at = 0; at < all.size(); at += give.size()) {
      CallFingerprint::Words told;
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(at), told.size(), told.begin());
      prints.emplace_back(told);
    }
    return prints;
  }

  /// One round after the other: whoever has heard all of one knows that the last has been read.
  Prints byStore(const CallFingerprint& mine, Milliseconds timeout) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const std::uint64_t number = ++rounds_;
    const CallFingerprint::Words& words = mine.words();
    store_->set(key(number, static_cast<std::size_t>(backend_.rank())),
                BytesView(reinterpret_cast<const std::uint8_t*>(words.data()), sizeof words));
    std::vector<std::string> keys;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      keys.push_back(key(number, rank));
    }
    if (!awaitAll(keys, timeout)) {
      return {};
    }
    Prints prints;
    for (const std::string& each : keys) {
      prints.push_back(read(each));
    }
    if (number > 1) {
      store_->deleteKey(key(number - 1, static_cast<std::size_t>(backend_.rank())));
    }
    return prints;
  }

  /// False when the group was aborted first.
  bool awaitAll(const std::vector<std::string>& keys, Milliseconds timeout) {
    const Deadline deadline = Deadline::after(timeout);
    while (!aborted_.load(std::memory_order_relaxed)) {  // until the deadline
      try {
        store_->wait(keys, std::min(kStoreSlice, deadline.remaining()));
        return true;
      } catch (const DistStoreError& error) {
        if (error.reason() != Reason::TIMEOUT) {
          throw;
        }
      }
      if (deadline.expired()) {
        refuseLate(keys, timeout);
      }
    }
    return false;
  }

  [[noreturn]] void refuseLate(const std::vector<std::string>& keys, Milliseconds timeout) {
    std::vector<int> missing;
    std::vector<std::string> texts;
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
      if (!store_->check({keys[rank]})) {
        missing.push_back(globalRank(backend_, rank));
        texts.push_back(str(missing.back()));
      }
    }
    throw DistTimeoutError({.reason = Reason::TIMEOUT,
                            .what = str("rank ", join(texts, ", "), " did not call a collective"),
                            .hint = "look at what these ranks are doing instead",
                            .group = backend_.options().groupName,
                            .rank = backend_.rank(),
                            .world = backend_.size(),
                            .culprits = missing,
                            .elapsed = timeout});
  }

  CallFingerprint read(const std::string& key) {
    const Bytes bytes = store_->get(key);
    CallFingerprint::Words told;
    if (bytes.size() != sizeof told) {
      throw DistBackendError({.reason = Reason::PROTOCOL,
                              .what = str("a rank told of its call in ", bytes.size(),
                                          " bytes instead of ", sizeof told),
                              .hint = "run the same version of unisono on all ranks"});
    }
    std::memcpy(told.data(), bytes.data(), bytes.size());
    return CallFingerprint(told);
  }

  static std::string key(std::uint64_t number, std::size_t rank) { return str(number, "/", rank); }
  std::size_t size() const { return static_cast<std::size_t>(backend_.size()); }

  Backend& backend_;
  const std::shared_ptr<Store> store_;  // null: by the backend
  std::atomic<bool> aborted_{false};
  Mutex mutex_;
  std::uint64_t rounds_ UNISONO_GUARDED_BY(mutex_) = 0;
};

ProcessGroupWrapper::ProcessGroupWrapper(std::shared_ptr<Backend> wrapped,
                                         std::shared_ptr<Store> store)
    : Backend({.rank = given(wrapped).rank(),
               .size = given(wrapped).size(),
               .options = given(wrapped).options()},
              given(wrapped).capabilities()),
      wrapped_(std::move(wrapped)),
      round_(std::make_unique<Round>(*wrapped_, std::move(store))) {
  Backend::setTimeout(wrapped_->timeout());
}

ProcessGroupWrapper::~ProcessGroupWrapper() = default;

void ProcessGroupWrapper::compare(const CollectiveArgs& args) {
  // Relaxed: just a number.
  const std::uint64_t seq = collectives_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (size() == 1) {
    return;
  }
  const CallFingerprint mine(args, seq);
  Prints prints;
  try {
    prints = round_->exchange(mine, args);
  } catch (const DistTimeoutError& error) {
    throw DistTimeoutError(withCall(error.facts(), args, mine));
  } catch (const DistStoreError& error) {
    throw DistStoreError(withCall(error.facts(), args, mine));
  } catch (const DistBackendError& error) {
    throw DistBackendError(withCall(error.facts(), args, mine));
  }
  if (!prints.empty()) {  // else it was aborted, of which the backend tells
    checkAllAlike(*this, args, seq, prints);
  }
}

WorkPtr ProcessGroupWrapper::start(CollectiveArgs&& args) {
  if (!isP2POp(args.type)) {
    compare(args);
  }
  return wrapped_->start(std::move(args));
}

WorkPtr ProcessGroupWrapper::startCoalesced(std::vector<CollectiveArgs> batch) {
  const auto isCollective = [](const CollectiveArgs& args) { return !isP2POp(args.type); };
  if (std::any_of(batch.begin(), batch.end(), isCollective)) {
    collectives_.fetch_add(1, std::memory_order_relaxed);
  }
  return wrapped_->startCoalesced(std::move(batch));
}

void ProcessGroupWrapper::monitoredBarrier(const BarrierOptions& opts, bool waitAllRanks) {
  collectives_.fetch_add(1, std::memory_order_relaxed);
  wrapped_->monitoredBarrier(opts, waitAllRanks);
}

std::shared_ptr<Backend> ProcessGroupWrapper::split(std::shared_ptr<Store> store,
                                                    const std::vector<int>& ranks,
                                                    const BackendOptions& options) {
  std::shared_ptr<Backend> part = wrapped_->split(store, ranks, options);
  return part ? std::make_shared<ProcessGroupWrapper>(std::move(part), std::move(store)) : nullptr;
}

void ProcessGroupWrapper::abort(std::exception_ptr reason) {
  round_->abort();
  wrapped_->abort(std::move(reason));
}

void ProcessGroupWrapper::setTimeout(std::chrono::milliseconds timeout) {
  Backend::setTimeout(timeout);
  wrapped_->setTimeout(timeout);
}

}  // namespace unisono
