#include "work/refusal.hpp"

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "work/overlap.hpp"
#include "work/reducible.hpp"

namespace unisono::detail {
namespace {

std::string reductionProblem(OpType type, RedOpType op, DType dtype) {
  if (op == RedOpType::BAND || op == RedOpType::BOR || op == RedOpType::BXOR) {
    return str("Cannot use ReduceOp.", name(op), " with non-integral dtype ", name(dtype));
  }
  if (op == RedOpType::AVG) {
    return "Cannot use ReduceOp.AVG with boolean inputs";
  }
  if (op == RedOpType::PREMUL_SUM) {
    return str("PreMulSum Data type must be half, float, bfloat16 or double, not ", name(dtype));
  }
  return str(opName(type), " does not support ReduceOp.", name(op), " on ", name(dtype),
             " tensors");
}

}  // namespace

void refuse(const Call& call, std::string why, std::string hint) {
  const std::string_view op = opName(call.args.type);
  throw UsageError({.reason = Reason::USAGE,
                    .what = str(op, " refused: ", why),
                    .hint = std::move(hint),
                    .op = std::string(op),
                    .rank = call.rank,
                    .world = call.size});
}

std::string shapeText(const Tensor& tensor) {
  std::string text = "(";
  for (const std::int64_t size : tensor.sizes()) {
    text += str(text.size() > 1 ? ", " : "", size);
  }
  return text + ")";
}

std::string typeText(const Tensor& tensor) {
  return tensor.device().type == DeviceType::CPU
             ? std::string(name(tensor.dtype()))
             : str(name(tensor.dtype()), " on ", describe(tensor.device()));
}

bool sameDevice(const Tensor& a, const Tensor& b) noexcept {
  return a.device().type == b.device().type &&
         (a.device().type == DeviceType::CPU || a.device().index == b.device().index);
}

bool sameType(const Tensor& a, const Tensor& b) noexcept {
  return a.dtype() == b.dtype() && sameDevice(a, b);
}

void requireDefined(const Call& call, Tensors tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) {
      refuse(call, str("the tensor at index ", i, " is undefined"));
    }
  }
}

void requireRoot(const Call& call) {
  if (call.args.root < 0 || call.args.root >= call.size) {
    refuse(call, str("invalid root rank: ", call.args.root),
           str("ranks of this group are 0 to ", call.size - 1));
  }
}

void requireRootTensor(const Call& call, Tensors tensors) {
  const int index = call.args.rootTensor;
  if (index < 0 || static_cast<std::size_t>(index) >= tensors.size()) {
    refuse(call, str("invalid root tensor: ", index),
           str("the call has ", tensors.size(), " tensors, counted from 0"));
  }
}

void requireType(const Call& call, Tensors tensors, const Tensor& like, std::size_t offset) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!sameType(tensors[i], like)) {
      refuse(call,
             str("invalid tensor type at index ", i + offset, " (expected ", typeText(like),
                 ", got ", typeText(tensors[i]), ")"),
             "give all tensors of one call one dtype and one device");
    }
  }
}

void requireTypeAndSizes(const Call& call, Tensors tensors, const Tensor& like,
                         std::size_t offset) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    requireType(call, tensors.subspan(i, 1), like, i + offset);
    if (tensors[i].sizes() != like.sizes()) {
      refuse(call, str("invalid tensor size at index ", i + offset, " (expected ", shapeText(like),
                       ", got ", shapeText(tensors[i]), ")"));
    }
  }
}

void requireOneDevice(const Call& call, Tensors tensors, const Tensor& like, const char* text) {
  for (const Tensor& tensor : tensors) {
    if (!sameDevice(tensor, like)) {
      refuse(call, str(text, ": one is on ", describe(like.device()), ", one on ",
                       describe(tensor.device())));
    }
  }
}

void requireReducible(const Call& call, DType type) {
  const RedOpType op = call.args.reduceOp.type();
  if (!isReducible(op, type)) {
    refuse(call, reductionProblem(call.args.type, op, type));
  }
}

void requireShares(const Call& call, const Tensor& one, const Tensor& many, const char* text) {
  std::int64_t all = 0;
  if (__builtin_mul_overflow(one.numel(), call.size, &all) || all != many.numel()) {
    refuse(call,
           str(text, ": ", many.describe(), " is not ", call.size, " times ", one.describe()));
  }
}

void requireCountable(const Call& call, Tensors tensors) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    if (__builtin_add_overflow(sum, static_cast<std::int64_t>(tensor.bytes()), &sum)) {
      refuse(call, "its tensors together have more bytes than can be counted");
    }
  }
}

void requireWritable(const Call& call, Tensors outputs, Twins twins) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].overlapsItself()) [[unlikely]] {
      refuse(call,
             str("the output at index ", i, ", ", outputs[i].describe(),
                 ", has several elements in one place in memory"),
             "make a copy of an expanded tensor before it is written to");
    }
  }
  if (const auto pair = sharedMemory(outputs, twins == Twins::ALLOWED)) {
    refuse(call, str("the outputs at index ", pair->first, " and ", pair->second, " share memory"),
           "give every output memory of its own");
  }
}

void requireApart(const Call& call, Tensors inputs, Tensors outputs, std::size_t ownInput,
                  std::size_t ownOutput) {
  const bool inPlace = ownInput != kNone && sameView(inputs[ownInput], outputs[ownOutput]);
  if (const auto pair = sharedMemory(inputs, outputs, inPlace ? ownInput : kNone)) {
    refuse(call,
           str("the input at index ", pair->first, " shares memory with the output at index ",
               pair->second),
           "only this rank's own slot may be in place");
  }
}

void requireOwnShare(const Call& call, const Tensor& one, const Tensor& many) {
  if (!shareMemory(one, many)) {
    return;
  }
  const auto* const share = static_cast<const std::byte*>(many.data()) + one.bytes() * call.self();
  if (!one.isContiguous() || !many.isContiguous() || one.data() != share) {
    refuse(call, str("input and output share memory, but not just share ", call.rank),
           "only this rank's own share may be in place");
  }
}

}  // namespace unisono::detail
