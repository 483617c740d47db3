// The operations that take lists of lists, or a list with one tensor per rank.
#include "base/str.hpp"
#include "work/overlap.hpp"
#include "work/validate.hpp"

namespace unisono::detail {
namespace {

void requireInput(const Call& call) {
  if (call.args.inputs.empty()) {
    refuse(call, "requires non-empty input tensor list");
  }
}

/// The splits are those of the list: an args filled by hand may have others.
void requireSplitsOf(const Call& call, const std::vector<std::int64_t>& splits, Tensors tensors) {
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    if (split < 0 || __builtin_add_overflow(sum, split, &sum)) {
      sum = -1;
      break;
    }
  }
  if (sum != static_cast<std::int64_t>(tensors.size())) {
    refuse(call, str("the lengths of its lists do not add up to ", tensors.size(), " tensors"));
  }
}

/// A list of one list with a tensor for every rank; `side` is "input" or "output".
void requireListPerRank(const Call& call, const std::vector<std::int64_t>& splits,
                        const char* side) {
  if (splits.size() != 1) {
    refuse(call, str("requires a single-element ", side, " list containing a list with ", call.size,
                     " tensors."));
  }
  if (splits[0] != call.size) {
    const char* const title = side[0] == 'i' ? "Input" : "Output";
    refuse(call, str("Incorrect ", side, " list size ", splits[0], ". ", title,
                     " list size should be ", call.size, ", same as size of the process group."));
  }
}

}  // namespace

void validateAllgather(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  const std::vector<std::int64_t>& lists = call.args.outputSplits;
  requireInput(call);
  if (lists.size() != inputs.size()) {
    refuse(call, "requires input/output tensor lists to have the same length");
  }
  const auto expected = static_cast<std::int64_t>(inputs.size()) * call.size;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (lists[i] != expected) {
      refuse(call, str("invalid output tensor list at index ", i, " (expected length ", expected,
                       ", got ", lists[i], ")"));
    }
  }
  requireSplitsOf(call, lists, outputs);
  if (inputs.size() == 1) {
    // Sizes may differ from rank to rank: what is known here is this rank's own.
    requireType(call, outputs, inputs[0]);
    requireTypeAndSizes(call, outputs.subspan(call.self(), 1), inputs[0], call.self());
  } else {
    requireTypeAndSizes(call, inputs, inputs[0]);
    requireTypeAndSizes(call, outputs, inputs[0]);
  }
  requireCountable(call, outputs);
  requireWritable(call, outputs);
  requireApart(call, inputs, outputs, inputs.size() == 1 ? 0 : kNone, call.self());
}

void validateAllgatherCoalesced(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  const std::vector<std::int64_t>& lists = call.args.outputSplits;
  requireInput(call);
  if (lists.size() != call.ranks()) {
    refuse(call,
           str("output lists should be equal to world size, ", call.size, ", not ", lists.size()));
  }
  for (const std::int64_t length : lists) {
    if (length != static_cast<std::int64_t>(inputs.size())) {
      refuse(call,
             str("invalid output size: (expected length ", inputs.size(), ", got ", length, ")"));
    }
  }
  requireSplitsOf(call, lists, outputs);
  requireType(call, inputs, inputs[0]);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::size_t element = i % inputs.size();
    if (outputs[i].sizes() != inputs[element].sizes()) {
      refuse(call, str("invalid size of output tensor at index ", element, " (expected length ",
                       shapeText(inputs[element]), ", got ", shapeText(outputs[i]), ")"));
    }
    requireType(call, outputs.subspan(i, 1), inputs[0], element);
  }
  requireCountable(call, outputs);
  requireWritable(call, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    requireApart(call, inputs.subspan(i, 1), outputs, 0, call.self() * inputs.size() + i);
  }
}

void validateGather(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  requireRoot(call);
  if (inputs.size() != 1) {
    refuse(call, "requires a single-element input tensor list");
  }
  if (call.rank != call.args.root) {
    if (!outputs.empty()) {
      refuse(call, "requires empty output on non-root");
    }
    return;
  }
  requireListPerRank(call, call.args.outputSplits, "output");
  requireSplitsOf(call, call.args.outputSplits, outputs);
  requireTypeAndSizes(call, outputs, inputs[0]);
  requireCountable(call, outputs);
  requireWritable(call, outputs);
  requireApart(call, inputs, outputs, 0, call.self());
}

void validateScatter(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  requireRoot(call);
  if (outputs.size() != 1) {
    refuse(call, "requires a single-element output tensor list");
  }
  requireWritable(call, outputs);
  if (call.rank != call.args.root) {
    if (!inputs.empty()) {
      refuse(call, "requires empty input on non-root");
    }
    return;
  }
  requireListPerRank(call, call.args.inputSplits, "input");
  requireSplitsOf(call, call.args.inputSplits, inputs);
  requireTypeAndSizes(call, inputs, outputs[0]);
  requireCountable(call, inputs);
  requireApart(call, inputs, outputs, call.self(), 0);
}

void validateReduceScatter(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  if (outputs.size() != 1) {
    refuse(call, "reduce_scatter only supports 1 output");
  }
  if (call.args.inputSplits.size() != outputs.size()) {
    refuse(call, "requires input/output tensor lists to have the same length");
  }
  if (call.args.inputSplits[0] != call.size) {
    refuse(call, str("invalid input tensor list size, must be world size, ", call.size, ", not ",
                     call.args.inputSplits[0]));
  }
  requireSplitsOf(call, call.args.inputSplits, inputs);
  requireType(call, inputs, outputs[0]);
  requireTypeAndSizes(call, inputs.subspan(call.self(), 1), outputs[0], call.self());
  requireReducible(call, outputs[0].dtype());
  requireCountable(call, inputs);
  requireWritable(call, outputs);
  requireApart(call, inputs, outputs, call.self(), 0);
}

void validateAllToAll(const Call& call) {
  const Tensors inputs = call.args.inputs;
  const Tensors outputs = call.args.outputs;
  if (inputs.size() != call.ranks()) {
    refuse(call,
           str("input tensor list size ", inputs.size(), " does not match world size ", call.size));
  }
  if (outputs.size() != call.ranks()) {
    refuse(call, str("output tensor list size ", outputs.size(), " does not match world size ",
                     call.size));
  }
  requireOneDevice(call, inputs, inputs[0]);
  requireOneDevice(call, outputs, inputs[0], "input and output tensors must be on the same device");
  requireType(call, inputs, inputs[0]);
  requireType(call, outputs, outputs[0]);
  if (inputs[0].dtype() != outputs[0].dtype()) {
    refuse(call, str("input and output tensors must have the same type, not ",
                     name(inputs[0].dtype()), " and ", name(outputs[0].dtype())));
  }
  if (inputs[call.self()].numel() != outputs[call.self()].numel()) {
    refuse(call, str("input and output tensors must have the same size at this rank's own index ",
                     call.rank, ", not ", shapeText(inputs[call.self()]), " and ",
                     shapeText(outputs[call.self()])));
  }
  requireCountable(call, inputs);
  requireCountable(call, outputs);
  requireWritable(call, outputs);
  requireApart(call, inputs, outputs, call.self(), call.self());
}

}  // namespace unisono::detail
