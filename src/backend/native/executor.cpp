#include "backend/native/executor.hpp"

#include <algorithm>
#include <new>
#include <numeric>

#include "backend/native/dispatch.hpp"
#include "backend/native/monitored_barrier.hpp"
#include "backend/native/operands.hpp"
#include "base/str.hpp"
#include "collective/barrier.hpp"
#include "reduction/copy.hpp"
#include "tensor/strided.hpp"

namespace unisono {
namespace {

std::vector<int> ranksUpTo(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// From here on places are exchanged. Smaller tensors are sooner copied, and may be left to
/// algorithms in which nobody arrives.
constexpr std::size_t kDirectFrom =
    std::max(shm::kSmallSlot, shm::kLlLines* shm::LlLine::kPayload) + 1;

std::size_t largest(std::span<const ConstBlock> give, std::span<const Block> take) noexcept {
  return std::max(largestBlock(give), largestBlock(take));
}

}  // namespace

Executor::Executor(shm::Arena& arena, const Selector& selector)
    : arena_(arena),
      selector_(selector),
      everybody_(ranksUpTo(arena.size())),
      give_(ranks()),
      take_(ranks()),
      reduction_(Reduction::of(reducedType_, reducedBy_, arena.size())) {}

std::string Executor::describe(const shm::Post& post) {
  // Copied before it is checked: another process may write anything here.
  return describeCall({.opType = post.opType,
                       .dtype = post.dtype,
                       .reduceOp = post.reduceOp,
                       .root = post.root,
                       .count = post.count});
}

void Executor::run(CollectiveArgs& args, Milliseconds timeout) {
  timeout_ = timeout;
  scratch_.reset();
  try {
    Dispatch::run(*this, args);
  } catch (const std::bad_alloc&) {
    // Others may be waiting for this rank already: the group cannot go on.
    shm::PeerWait& wait = arena_.wait();
    AbortCause cause;
    cause.reason = Reason::RESOURCE;
    cause.reporter = arena_.rank();
    cause.seq = arena_.seq();
    try {
      cause.culprits = {arena_.rank()};
      cause.text = str(wait.nameOf(arena_.rank()), " has no memory left for ", args.describe());
    } catch (const std::bad_alloc&) {
      // Nor for the words: that it is over counts more than why.
    }
    wait.throwCauseHere(wait.fail(std::move(cause)));
  } catch (...) {
    arena_.abandon();
    throw;
  }
}

void Executor::begin(const CollectiveArgs& args, const Given& given) {
  const Tensor* tensor = args.anyTensor();
  shm::Place place;
  if (given.block.size() >= kDirectFrom) {
    place = arena_.registered().find(given.block);
    if (place.block != 0) {
      // One thread writes: no need for an addition that others see at once.
      registeredUses_.store(registeredUses() + 1, std::memory_order_relaxed);
    }
  }
  if (place.block == 0 && given.pulled) {
    place = {.block = shm::kOwnMemory,
             .offset = reinterpret_cast<std::uint64_t>(given.block.data())};
  }
  arena_.begin(
      {.name = opName(args.type),
       .signature = folded(args.signature()),
       .opType = static_cast<std::uint8_t>(args.type),
       .dtype = static_cast<std::uint8_t>(tensor == nullptr ? DType::UINT8 : tensor->dtype()),
       .reduceOp = static_cast<std::uint8_t>(args.reduceOp.type()),
       .algorithm = given.algorithm,
       .root = args.root,
       .count = tensor == nullptr ? 0 : static_cast<std::uint64_t>(tensor->numel()),
       .timeout = timeout_,
       .gives = given.gives,
       .place = place});
}

bool Executor::pulls(Movement movement, std::size_t bytes) noexcept {
  return selector_.pulls(movement, bytes, arena_.size()) && arena_.canPull();
}

bool Executor::byLines(std::size_t bytes, std::size_t givers) const noexcept {
  return linesAreBest(
      {.bytes = bytes, .elementSize = 1, .ranks = arena_.size(), .crowded = arena_.isCrowded()},
      givers);
}

std::size_t Executor::mostDealt() const noexcept {
  return mostDealtByLines(arena_.size(), arena_.isCrowded());
}

void Executor::broadcast(const CollectiveArgs& args) {
  const Tensor& tensor = args.outputs[static_cast<std::size_t>(args.rootTensor)];
  const OutputBlock output(tensor, scratch_);
  const ConstBlock mine = isRoot(args) ? readable(tensor, scratch_) : ConstBlock();
  const std::span<const int> givers(&args.root, 1);
  const bool lines = byLines(tensor.bytes(), 1);
  const bool pulled = !lines && pulls(Movement::BROADCAST, tensor.bytes());
  begin(
      args,
      {.block = mine, .gives = isRoot(args), .pulled = pulled && isRoot(args), .algorithm = lines});
  if (lines) {
    shareLines(arena_, mine, output.block(), givers);
  } else {
    std::fill(take_.begin(), take_.end(), Block());
    take_[static_cast<std::size_t>(args.root)] = output.block();
    shareBlocks(arena_, mine, take_, givers);
  }
  arena_.end(false);
  for (const Tensor& each : args.outputs) {
    if (&each != &tensor) {
      unpack(each, output.block().data());
    }
  }
  if (!isRoot(args)) {
    output.deliver();
  }
}

/// Also allgatherCoalesced: every rank gives all its inputs as one block. Rank p's block goes to
/// the outputs that are p's, in each of the lists.
void Executor::allgather(const CollectiveArgs& args) {
  std::vector<Block> take;
  if (args.inputs.size() == 1) {
    std::vector<OutputBlock> outputs;
    for (const Tensor& tensor : args.outputs) {
      outputs.emplace_back(tensor, scratch_);
      take.push_back(outputs.back().block());
    }
    const ConstBlock mine = readable(args.inputs[0], scratch_);
    const bool lines = byLines(largestBlock(take), ranks() - 1);  // which all ranks know
    begin(args, {.block = mine, .pulled = !lines && pulls(Movement::ALL_GATHER, mine.size())});
    if (lines) {
      shareLines(arena_, mine, take, everybody_);
    } else {
      shareBlocks(arena_, mine, take, everybody_);
    }
    arena_.end(true);
    for (const OutputBlock& output : outputs) {
      output.deliver();
    }
    return;
  }
  const Block mine = packInputs(args, scratch_);
  std::byte* all = scratch_.take(mine.size() * ranks());
  for (std::size_t peer = 0; peer < ranks(); ++peer) {
    take.emplace_back(all + peer * mine.size(), mine.size());
  }
  begin(args, {.block = mine, .pulled = pulls(Movement::ALL_GATHER, mine.size())});
  shareBlocks(arena_, mine, take, everybody_);
  arena_.end(true);
  unpackGathered(args, ranks(), all);
}

void Executor::allgatherSingle(const CollectiveArgs& args, const Tensor& output,
                               const Tensor& input) {
  const OutputBlock out(output, scratch_);
  const ConstBlock mine = readable(input, scratch_);
  const bool lines = byLines(mine.size(), ranks() - 1);
  begin(args, {.block = mine,
               .pulled = !lines && pulls(Movement::ALL_GATHER, mine.size()),
               .algorithm = lines});
  if (lines) {
    shareLines(arena_, mine, out.block(), everybody_);
  } else {
    cut(out.block(), std::span(take_));
    shareBlocks(arena_, mine, take_, everybody_);
  }
  arena_.end(true);
  out.deliver();
}

void Executor::gather(const CollectiveArgs& args) {
  std::vector<OutputBlock> outputs;
  outputs.reserve(args.outputs.size());
  std::fill(take_.begin(), take_.end(), Block());
  for (std::size_t peer = 0; isRoot(args) && peer < ranks(); ++peer) {
    outputs.emplace_back(args.outputs[peer], scratch_);
    take_[peer] = outputs.back().block();
  }
  const int me = arena_.rank();
  const ConstBlock mine = readable(args.inputs[0], scratch_);
  const std::span<const int> givers =
      isRoot(args) ? std::span<const int>(everybody_) : std::span(&me, 1);
  const bool lines = byLines(mine.size(), ranks() - 1);
  begin(args, {.block = mine, .pulled = !lines && pulls(Movement::GATHER, mine.size())});
  if (lines) {
    shareLines(arena_, mine, take_, givers);
  } else {
    shareBlocks(arena_, mine, take_, givers);
  }
  arena_.end(isRoot(args));
  for (const OutputBlock& output : outputs) {
    output.deliver();
  }
}

void Executor::scatter(const CollectiveArgs& args) {
  std::fill(give_.begin(), give_.end(), ConstBlock());
  for (std::size_t peer = 0; isRoot(args) && peer < ranks(); ++peer) {
    give_[peer] = readable(args.inputs[peer], scratch_);
  }
  const OutputBlock output(args.outputs[0], scratch_);
  std::fill(take_.begin(), take_.end(), Block());
  take_[static_cast<std::size_t>(args.root)] = output.block();
  const bool pulled = pulls(Movement::SCATTER, output.block().size());
  begin(args, {.gives = isRoot(args), .pulled = pulled && isRoot(args)});
  dealBlocks(arena_, give_, take_, std::span(&args.root, 1), mostDealt());
  arena_.end(false);
  output.deliver();
}

void Executor::alltoall(const CollectiveArgs& args) {
  std::vector<ConstBlock> give;
  std::vector<OutputBlock> outputs;
  std::vector<Block> take;
  for (std::size_t peer = 0; peer < ranks(); ++peer) {
    give.push_back(readable(args.inputs[peer], scratch_));
    outputs.emplace_back(args.outputs[peer], scratch_);
    take.push_back(outputs.back().block());
  }
  begin(args, {.pulled = pulls(Movement::ALL_TO_ALL, largest(give, take))});
  dealBlocks(arena_, give, take, everybody_, mostDealt());
  arena_.end(true);
  for (const OutputBlock& output : outputs) {
    output.deliver();
  }
}

void Executor::alltoallSingle(const CollectiveArgs& args) {
  const Tensor& input = args.inputs[0];
  const OutputBlock output(args.outputs[0], scratch_);
  const ConstBlock whole = readable(input, scratch_);
  cutRows(whole, input, args.inputSplits, std::span(give_));
  cutRows(output.block(), args.outputs[0], args.outputSplits, std::span(take_));
  begin(args, {.block = whole, .pulled = pulls(Movement::ALL_TO_ALL, largest(give_, take_))});
  dealBlocks(arena_, give_, take_, everybody_, mostDealt());
  arena_.end(true);
  output.deliver();
}

void Executor::barrier(const CollectiveArgs& args) {
  begin(args, {.algorithm = arena_.isCrowded()});
  barrierArena(arena_);
  arena_.end(true);
}

}  // namespace unisono
