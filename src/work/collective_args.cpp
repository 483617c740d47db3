#include "unisono/work/collective_args.hpp"

#include "base/str.hpp"
#include "work/reducible.hpp"
#include "work/validate.hpp"

namespace unisono {
namespace {

/// "float32[4]", "float32[4] and 2 more".
std::string tensorsText(const TensorList& tensors) {
  std::string text = tensors[0].describe();
  if (tensors.size() > 1) {
    text += str(" and ", tensors.size() - 1, " more");
  }
  return text;
}

std::string partsText(const CollectiveArgs& args) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += text.empty() ? part : ", " + part; };
  if (!args.inputs.empty()) {
    add(tensorsText(args.inputs));
  }
  if (!args.outputs.empty()) {
    const std::string outputs = tensorsText(args.outputs);
    text += args.inputs.empty() ? outputs : " -> " + outputs;
  }
  if (isReduction(args.type)) {
    add(std::string(name(args.reduceOp.type())));
  }
  if (isRooted(args.type)) {
    add(str("root ", args.root));
  }
  if (isP2POp(args.type)) {
    add(args.type == OpType::SEND            ? str("to ", args.peer)
        : args.type == OpType::RECVANYSOURCE ? "from any"
                                             : str("from ", args.peer));
    add(str("tag ", args.tag));
  }
  return text;
}

}  // namespace

void CollectiveArgs::validate(int rank, int size) const {
  // The most frequent calls, in which a few nanoseconds are noticed, are seen to be right at once.
  if (inputs.size() + outputs.size() == 1 && timeout >= kUnsetTimeout) {
    const Tensor& only = *anyTensor();
    const bool plain = only.defined() && only.isContiguous();
    if (plain && type == OpType::ALLREDUCE && inputs.empty() &&
        detail::isReducible(reduceOp.type(), only.dtype())) {
      return;
    }
    if (plain &&
        (type == OpType::RECV ? inputs.empty() : type == OpType::SEND && outputs.empty()) &&
        peer >= 0 && peer < size && tag >= 0) {
      return;
    }
  }
  detail::validateCall({*this, rank, size});
}

std::string CollectiveArgs::describe() const {
  return str(opName(type), "(", partsText(*this), ")");
}

}  // namespace unisono
