#include "support/loopback_world.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/mutex.hpp"
#include "base/str.hpp"
#include "base/wait.hpp"
#include "life/blame.hpp"
#include "support/thread_world.hpp"

namespace unisono::test {
namespace {

struct Message {
  std::uint64_t seq = 0;
  std::uint32_t signature = 0;
  std::size_t flights = 0;
  std::span<const std::byte> block = {};  // of the sender, or `copy`
  std::vector<std::byte> copy = {};
  bool* taken = nullptr;  // of a sender that waits for it
};

struct Channel {
  std::deque<Message> messages;
  std::size_t held = 0;  // bytes of copies
};

template <typename A, typename B>
bool overlap(std::span<A> a, std::span<B> b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

void checkApart(std::span<const SendTo> out, std::span<const RecvFrom> in) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(in[i].block, in[j].block)) {
        throw std::logic_error("two blocks that are received overlap");
      }
    }
    for (const SendTo& sent : out) {
      if (overlap(in[i].block, sent.block)) {
        throw std::logic_error("a block that is sent overlaps one that is received");
      }
    }
  }
}

void put(const RecvFrom& in, std::span<const std::byte> theirs) {
  if (in.into == RecvFrom::Into::STORE) {
    std::copy(theirs.begin(), theirs.end(), in.block.begin());
    return;
  }
  const bool before = in.into == RecvFrom::Into::BEFORE;
  const std::byte* const sources[] = {before ? theirs.data() : in.block.data(),
                                      before ? in.block.data() : theirs.data()};
  in.reduction->reduce(in.block.data(), sources, theirs.size() / in.reduction->elementSize());
}

}  // namespace

/// What all ranks see. Everything under one lock: what is tested is the order of messages.
class LoopbackWorld::Shared {
 public:
  Shared(int ranks, const LoopbackOptions& given)
      : options(given), changed(static_cast<std::size_t>(ranks)), ranks_(changed.size()) {
    channels_.resize(ranks_ * ranks_);
    costs.resize(ranks_);
  }

  Channel& channel(int from, int to) UNISONO_REQUIRES(mutex) {
    return channels_.at(static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to));
  }
  void fail(AbortCause why) UNISONO_REQUIRES(mutex) {
    if (!cause) {
      cause = std::move(why);
    }
    for (CondVar& each : changed) {
      each.notifyAll();
    }
  }
  std::size_t leftOver() UNISONO_REQUIRES(mutex) {
    std::size_t count = 0;
    for (Channel& each : channels_) {
      count += each.messages.size();
    }
    return count;
  }

  const LoopbackOptions options;
  Mutex mutex;
  std::deque<CondVar> changed;  // one for each rank
  std::vector<LoopbackCost> costs UNISONO_GUARDED_BY(mutex);
  std::optional<AbortCause> cause UNISONO_GUARDED_BY(mutex);

 private:
  const std::size_t ranks_;
  std::vector<Channel> channels_ UNISONO_GUARDED_BY(mutex);  // by sender, then receiver
};

class LoopbackWorld::Rank final : public Communicator {
 public:
  Rank(int rank, int size, Shared& shared) : Communicator(rank, size), shared_(shared) {}

  void end(bool done) noexcept override {
    const MutexLock lock(shared_.mutex);
    isOpen_ = false;
    if (!done) {
      shared_.fail({.reason = Reason::ABORTED,
                    .culprits = {rank()},
                    .reporter = rank(),
                    .text = str("rank ", rank(), " did not finish ", call_.name)});
    }
  }

  void transfer(std::span<const SendTo> out,
                std::span<const RecvFrom> in) override UNISONO_NO_ANALYSIS {
    checkApart(out, in);
    if (!isOpen_) {
      throw std::logic_error("a transfer outside of an operation");
    }
    const MutexLock lock(shared_.mutex);
    throwIfFailed();
    // As many flags as blocks, which do not move: receivers set them.
    const auto taken = std::make_unique<bool[]>(out.size());
    std::vector<bool> arrived(in.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      offer(out[i], taken[i]);
    }
    const auto ready = [&]() UNISONO_NO_ANALYSIS {
      if (shared_.cause) {
        return true;
      }
      takeWhatIsThere(in, arrived);
      return std::all_of(taken.get(), taken.get() + out.size(), std::identity()) &&
             std::find(arrived.begin(), arrived.end(), false) == arrived.end();
    };
    CondWaitable change(shared_.changed[static_cast<std::size_t>(rank())], shared_.mutex);
    const Deadline deadline = Deadline::after(std::min(shared_.options.timeout, call_.timeout));
    if (!waitUntil(ready, {.deadline = deadline, .subject = [] { return "a message"; }}, change)) {
      shared_.fail({.reason = Reason::TIMEOUT,
                    .reporter = rank(),
                    .seq = seq_,
                    .text = str(call_.name, " timed out on rank ", rank())});
    }
    throwIfFailed();
  }

 protected:
  void open(const Call& call) override {
    const MutexLock lock(shared_.mutex);
    if (isOpen_) {
      throw std::logic_error("an operation begins before the one before has ended");
    }
    call_ = call;
    ++seq_;
    throwIfFailed();
    isOpen_ = true;
  }

 private:
  LoopbackCost& cost() UNISONO_REQUIRES(shared_.mutex) {
    return shared_.costs[static_cast<std::size_t>(rank())];
  }

  void throwIfFailed() UNISONO_REQUIRES(shared_.mutex) {
    if (shared_.cause) {
      throwCause(*shared_.cause, {.op = std::string(call_.name), .rank = rank(), .world = size()},
                 shared_.cause->culprits);
    }
  }

  void offer(const SendTo& out, bool& taken) UNISONO_REQUIRES(shared_.mutex) {
    if (out.rank == rank()) {
      throw std::logic_error("a rank sends to itself");
    }
    Channel& channel = shared_.channel(rank(), out.rank);
    cost().bytes += out.block.size();
    cost().messages += 1;
    Message& message = channel.messages.emplace_back();
    message.seq = seq_;
    message.signature = call_.signature;
    message.flights = cost().flights;
    message.block = out.block;
    const std::size_t room = shared_.options.room;
    if (room > 0 && channel.held <= room && out.block.size() <= room - channel.held) {
      message.copy.assign(out.block.begin(), out.block.end());
      message.block = message.copy;
      channel.held += message.copy.size();
      taken = true;
    } else {
      message.taken = &taken;
    }
    shared_.changed[static_cast<std::size_t>(out.rank)].notifyAll();
  }

  void takeWhatIsThere(std::span<const RecvFrom> in, std::vector<bool>& arrived)
      UNISONO_REQUIRES(shared_.mutex) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      Channel& channel = shared_.channel(in[i].rank, rank());
      if (arrived[i] || channel.messages.empty() || isBehind(in, arrived, i)) {
        continue;
      }
      Message& message = channel.messages.front();
      if (!isAsMeant(message, in[i])) {
        return;
      }
      put(in[i], message.block);
      arrived[i] = true;
      cost().flights = std::max(cost().flights, message.flights + 1);
      channel.held -= message.copy.size();
      if (message.taken != nullptr) {
        *message.taken = true;
        shared_.changed[static_cast<std::size_t>(in[i].rank)].notifyAll();
      }
      channel.messages.pop_front();
    }
  }

  /// Whether an earlier block of the same rank has not come yet.
  static bool isBehind(std::span<const RecvFrom> in, const std::vector<bool>& arrived,
                       std::size_t index) {
    for (std::size_t i = 0; i < index; ++i) {
      if (in[i].rank == in[index].rank && !arrived[i]) {
        return true;
      }
    }
    return false;
  }

  bool isAsMeant(const Message& message, const RecvFrom& in) UNISONO_REQUIRES(shared_.mutex) {
    if (message.seq == seq_ && message.signature == call_.signature &&
        message.block.size() == in.block.size()) {
      return true;
    }
    shared_.fail(
        {.reason = Reason::MISMATCH,
         .culprits = {in.rank},
         .reporter = rank(),
         .seq = seq_,
         .text = str("rank ", rank(), " expects ", in.block.size(), " bytes for operation ", seq_,
                     " with signature ", call_.signature, ", rank ", in.rank, " sends ",
                     message.block.size(), " bytes for operation ", message.seq, " with signature ",
                     message.signature)});
    return false;
  }

  Shared& shared_;
  Call call_;
  std::uint64_t seq_ = 0;
  bool isOpen_ = false;
};

LoopbackWorld::LoopbackWorld(int ranks, const LoopbackOptions& options)
    : shared_(std::make_unique<Shared>(ranks, options)) {
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<Rank>(rank, ranks, *shared_));
  }
}

LoopbackWorld::~LoopbackWorld() = default;

Communicator& LoopbackWorld::operator[](int rank) {
  return *ranks_.at(static_cast<std::size_t>(rank));
}

std::vector<std::exception_ptr> LoopbackWorld::outcomes(
    const std::function<void(Communicator&)>& body) {
  return onThreads(size(), [&](int rank) { body((*this)[rank]); });
}

void LoopbackWorld::run(const std::function<void(Communicator&)>& body) {
  for (const std::exception_ptr& thrown : outcomes(body)) {
    if (thrown) {
      std::rethrow_exception(thrown);
    }
  }
  const MutexLock lock(shared_->mutex);
  if (const std::size_t count = shared_->leftOver(); count > 0) {
    throw std::logic_error(str(count, " messages were sent but not taken"));
  }
}

LoopbackCost LoopbackWorld::cost(int rank) const {
  const MutexLock lock(shared_->mutex);
  return shared_->costs.at(static_cast<std::size_t>(rank));
}

LoopbackCost LoopbackWorld::total() const {
  LoopbackCost sum;
  for (int rank = 0; rank < size(); ++rank) {
    const LoopbackCost each = cost(rank);
    sum.bytes += each.bytes;
    sum.messages += each.messages;
    sum.flights = std::max(sum.flights, each.flights);
  }
  return sum;
}

void LoopbackWorld::resetCosts() {
  const MutexLock lock(shared_->mutex);
  std::fill(shared_->costs.begin(), shared_->costs.end(), LoopbackCost());
}

}  // namespace unisono::test
