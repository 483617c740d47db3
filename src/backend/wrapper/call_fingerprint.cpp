#include "backend/wrapper/call_fingerprint.hpp"

#include <algorithm>
#include <string_view>

#include "base/fingerprint.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

// Which word is what. From kFirst on: type, device, number of dimensions and sizes of each tensor.
constexpr std::size_t kHash = 0;  // of what follows from kFirst on, also where that is cut off
constexpr std::size_t kSeq = 1;
constexpr std::size_t kOp = 2;
constexpr std::size_t kReduction = 3;  // -1: none
constexpr std::size_t kRoot = 4;       // -1: none
constexpr std::size_t kCount = 5;      // of tensors
constexpr std::size_t kFirst = 6;

constexpr std::size_t kMostShown = 8;  // tensors in a text

/// PyTorch's name: what those who know its texts look for.
std::string scalarName(DType type) {
  constexpr std::string_view kNames[kDTypeCount] = {
      "Float",  "Double", "Half", "BFloat16",     "Float8_e4m3fn", "Float8_e5m2",
      "Char",   "Short",  "Int",  "Long",         "Byte",          "UInt16",
      "UInt32", "UInt64", "Bool", "ComplexFloat", "ComplexDouble"};
  return std::string(kNames[static_cast<std::size_t>(type)]);
}

std::string shapeText(const Dims& sizes) {
  std::vector<std::string> parts;
  for (const std::int64_t size : sizes) {
    parts.push_back(str(size));
  }
  return str("[", join(parts, ", "), "]");
}

bool haveOneShape(const TensorList& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const Tensor& tensor) { return tensor.sizes() == tensors[0].sizes(); });
}

/// "Op type: A vs B", unless they are the same.
void note(std::vector<std::string>& differences, std::string_view aspect, const std::string& mine,
          const std::string& others) {
  if (mine != others) {
    differences.push_back(str(aspect, ": ", mine, " vs ", others));
  }
}

std::string rootText(std::int64_t root) {
  return root < 0 ? "none" : str(root);
}

}  // namespace

CallFingerprint::CallFingerprint(const CollectiveArgs& args, std::uint64_t seq) {
  std::vector<std::int64_t> all;
  const std::vector<Print> prints = printsOf(args);
  for (const Print& print : prints) {
    all.push_back(static_cast<std::int64_t>(print.type));
    all.push_back(static_cast<std::int64_t>(print.device));
    all.push_back(static_cast<std::int64_t>(print.sizes.size()));
    all.insert(all.end(), print.sizes.begin(), print.sizes.end());
  }
  words_[kHash] = static_cast<std::int64_t>(
      fingerprint({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(std::int64_t)}));
  words_[kSeq] = static_cast<std::int64_t>(seq);
  words_[kOp] = static_cast<std::int64_t>(args.type);
  words_[kReduction] =
      isReduction(args.type) ? static_cast<std::int64_t>(args.reduceOp.type()) : -1;
  words_[kRoot] = isRooted(args.type) ? args.root : -1;
  words_[kCount] = static_cast<std::int64_t>(prints.size());
  std::copy_n(all.begin(), std::min(all.size(), words_.size() - kFirst), words_.begin() + kFirst);
  readTensors();
}

CallFingerprint::CallFingerprint(const Words& told) : words_(told) {
  readTensors();
}

/// Those tensors of a call that have the same shape on all ranks.
std::vector<CallFingerprint::Print> CallFingerprint::printsOf(const CollectiveArgs& args) {
  std::vector<Print> prints;
  const auto add = [&](const TensorList& tensors) {
    for (const Tensor& tensor : tensors) {
      prints.push_back({tensor.dtype(), tensor.device().type, tensor.sizes()});
    }
  };
  switch (args.type) {
    case OpType::BROADCAST:
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
    case OpType::REDUCE:
    case OpType::SCATTER:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      add(args.outputs);
      break;
    case OpType::GATHER:
    case OpType::ALLGATHER_BASE:
    case OpType::ALLGATHER_COALESCED:
    case OpType::ALLGATHER_INTO_TENSOR_COALESCED:
      add(args.inputs);
      break;
    case OpType::REDUCE_SCATTER_BASE:
      add(args.inputs);
      add(args.outputs);
      break;
    case OpType::ALLGATHER:  // where the slots differ, so do the inputs
      add(haveOneShape(args.outputs) ? args.inputs : TensorList());
      break;
    case OpType::REDUCE_SCATTER:
      add(haveOneShape(args.inputs) ? args.outputs : TensorList());
      break;
    case OpType::ALLREDUCE_SPARSE:  // of the whole: everybody has entries of its own
      prints.push_back({args.inputs[1].dtype(), args.inputs[1].device().type,
                        Dims(std::span<const std::int64_t>(args.inputSplits))});
      break;
    default:
      break;
  }
  return prints;
}

/// Stops at what is no tensor: the end of the words, or nonsense.
void CallFingerprint::readTensors() {
  std::span<const std::int64_t> rest = std::span(words_).subspan(kFirst);
  for (std::int64_t i = 0; i < words_[kCount] && rest.size() >= 3; ++i) {
    const std::int64_t dims = rest[2];
    const bool fits = rest[0] >= 0 && rest[0] < kDTypeCount && rest[1] >= 0 &&
                      rest[1] < kDeviceTypeCount && dims >= 0 &&
                      static_cast<std::size_t>(dims) <= rest.size() - 3;
    if (!fits) {
      return;
    }
    const auto count = static_cast<std::size_t>(dims);
    tensors_.push_back({static_cast<DType>(rest[0]), static_cast<DeviceType>(rest[1]),
                        Dims(rest.subspan(3, count))});
    rest = rest.subspan(3 + count);
  }
}

std::string CallFingerprint::opText() const {
  const bool known = words_[kOp] >= 0 && words_[kOp] < kOpTypeCount;
  return std::string(name(known ? static_cast<OpType>(words_[kOp]) : OpType::UNKNOWN));
}

std::string CallFingerprint::reductionText() const {
  const std::int64_t op = words_[kReduction];
  return op >= 0 && op <= static_cast<std::int64_t>(RedOpType::UNUSED)
             ? std::string(name(static_cast<RedOpType>(op)))
             : "none";
}

std::string CallFingerprint::tensorsText() const {
  std::vector<std::string> shapes;
  std::vector<std::string> types;
  std::vector<std::string> devices;
  for (const Print& print : tensors_) {
    shapes.push_back(shapeText(print.sizes));
    types.push_back(scalarName(print.type));
    devices.emplace_back(name(print.device));
  }
  return str(", TensorShape=", join(shapes, " ", kMostShown),
             ", TensorDtypes=", join(types, " ", kMostShown),
             ", TensorDeviceTypes=", join(devices, " ", kMostShown));
}

std::string CallFingerprint::describe() const {
  return str("CollectiveFingerPrint(SequenceNumber=", words_[kSeq], ", OpType=", opText(),
             tensors_.empty() ? "" : tensorsText(),
             words_[kReduction] < 0 ? "" : str(", ReduceOp=", reductionText()),
             words_[kRoot] < 0 ? "" : str(", Root=", words_[kRoot]), ")");
}

std::string CallFingerprint::differences(const CallFingerprint& other) const {
  std::vector<std::string> parts;
  note(parts, "Sequence number", str(words_[kSeq]), str(other.words_[kSeq]));
  note(parts, "Op type", opText(), other.opText());
  note(parts, "Number of tensors", str(words_[kCount]), str(other.words_[kCount]));
  for (std::size_t i = 0; i < std::min(tensors_.size(), other.tensors_.size()); ++i) {
    const std::string of = i == 0 ? "" : str(" of tensor ", i);
    const Print& mine = tensors_[i];
    const Print& others = other.tensors_[i];
    note(parts, str("Tensor shapes", of), shapeText(mine.sizes), shapeText(others.sizes));
    note(parts, str("Tensor dtypes", of), scalarName(mine.type), scalarName(others.type));
    note(parts, str("Tensor devices", of), std::string(name(mine.device)),
         std::string(name(others.device)));
  }
  note(parts, "Reduction", reductionText(), other.reductionText());
  note(parts, "Root", rootText(words_[kRoot]), rootText(other.words_[kRoot]));
  if (parts.empty()) {
    parts.push_back(str("a tensor after the first ", tensors_.size()));
  }
  return join(parts, ", ", kMostShown);
}

}  // namespace unisono
