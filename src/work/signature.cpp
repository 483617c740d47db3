// What all ranks must agree on, in 64 bits.
#include "unisono/work/collective_args.hpp"

namespace unisono {
namespace {

/// Mixes words by one wide multiplication each: every bit of a word reaches every bit of the hash.
/// The numbers are part of what ranks tell each other: changing them changes the protocol.
class Mixer {
 public:
  void add(std::uint64_t word) noexcept {
    const auto product = static_cast<unsigned __int128>(hash_ ^ word) * kOdd;
    hash_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64) ^ word;
  }
  void addCount(std::int64_t count) noexcept { add(static_cast<std::uint64_t>(count)); }
  /// Never 0, which means that there is nothing to agree on.
  std::uint64_t hash() const noexcept { return hash_ == 0 ? kOdd : hash_; }

 private:
  static constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t hash_ = 0xA0761D6478BD642F;
};

/// The counts of a list that is the same on all ranks.
void addCounts(Mixer& mixer, const TensorList& tensors) noexcept {
  mixer.add(tensors.size());
  for (const Tensor& tensor : tensors) {
    mixer.addCount(tensor.numel());
  }
}

/// Those counts that are equal on all ranks.
void addCommonCounts(Mixer& mixer, const CollectiveArgs& args) noexcept {
  switch (args.type) {
    case OpType::BROADCAST:
    case OpType::ALLREDUCE:
    case OpType::REDUCE:
    case OpType::SCATTER:
    case OpType::REDUCE_SCATTER_BASE:
      return mixer.addCount(args.outputs.empty() ? 0 : args.outputs[0].numel());
    case OpType::ALLGATHER_BASE:
    case OpType::GATHER:
      return mixer.addCount(args.inputs.empty() ? 0 : args.inputs[0].numel());
    case OpType::ALLREDUCE_COALESCED:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
    case OpType::ALLGATHER:  // a slot per rank, each as large as that rank's input
      return addCounts(mixer, args.outputs);
    case OpType::ALLGATHER_COALESCED:
    case OpType::ALLGATHER_INTO_TENSOR_COALESCED:
    case OpType::REDUCE_SCATTER:  // a slot per rank, each as large as that rank's output
      return addCounts(mixer, args.inputs);
    case OpType::ALLREDUCE_SPARSE:
      for (const std::int64_t size : args.inputSplits) {
        mixer.addCount(size);
      }
      return;
    default:  // every rank gives and gets what it likes
      return;
  }
}

}  // namespace

std::uint64_t CollectiveArgs::signature() const noexcept {
  if (isP2POp(type)) {
    return 0;
  }
  const Tensor* const tensor =
      type == OpType::ALLREDUCE_SPARSE && inputs.size() == 2 ? &inputs[1] : anyTensor();
  const auto word = [](auto value, int shift) {
    return static_cast<std::uint64_t>(value) << shift;
  };
  std::uint64_t head = word(type, 0);
  head |= tensor == nullptr ? 0 : word(static_cast<std::uint8_t>(tensor->dtype()) + 1, 8);
  head |= isReduction(type) ? word(static_cast<std::uint8_t>(reduceOp.type()) + 1, 16) : 0;
  head |= isRooted(type) ? word(static_cast<std::uint32_t>(root), 32) : 0;
  Mixer mixer;
  mixer.add(head);
  addCommonCounts(mixer, *this);
  return mixer.hash();
}

}  // namespace unisono
