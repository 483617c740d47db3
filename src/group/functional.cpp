#include "unisono/group/functional.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "unisono/group/group_registry.hpp"

#include "base/check.hpp"
#include "tensor/strided.hpp"

namespace unisono::functional {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes sizesOf(const Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

/// With at least one dimension: a single element is a row of one.
Sizes rowsOf(const Tensor& tensor) {
  return tensor.sizes().empty() ? Sizes{1} : sizesOf(tensor);
}

std::shared_ptr<std::vector<std::byte>> memoryOf(std::size_t bytes) {
  try {
    // One at least: a result without elements has an owner to be known by, too.
    return std::make_shared<std::vector<std::byte>>(std::max<std::size_t>(bytes, 1));
  } catch (const std::exception&) {  // bad_alloc, or length_error where no memory is as large
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("there is no memory for a result of ", formatBytes(bytes)),
                     .hint = "let go of results that are no longer needed, or use the collectives "
                             "of Group, which write to memory that is there"});
  }
}

/// A tensor in new memory.
Tensor newTensor(const Sizes& sizes, DType type) {
  static std::byte nowhere;
  const Tensor shape(&nowhere, type, Dims(sizes));  // checks the sizes, and counts
  const auto memory = memoryOf(shape.bytes());
  return {memory->data(), type, Dims(sizes), Device{}, memory};
}

Tensor copyOf(const Tensor& tensor) {
  Tensor copy = newTensor(sizesOf(tensor), tensor.dtype());
  if (tensor.numel() > 0) {
    pack(copy.dataAs<std::byte>(), tensor);
  }
  return copy;
}

Tensor inOneRow(const Tensor& tensor) {
  return tensor.isContiguous() ? tensor : copyOf(tensor);
}

/// `input` once it has been written, if that can be read here.
Tensor readable(const Tensor& input, std::string_view call) {
  UNISONO_CHECK(input.defined(), call, " refused: there is no tensor");
  UNISONO_CHECK(input.device().type == DeviceType::CPU, call, " refused: ", input.describe(),
                " is not in memory of the CPU, where the result is made");
  return waitTensor(input);
}

/// -1, which no tensor has, when it is no number.
std::int64_t sumOf(std::span<const std::int64_t> splits) {
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    if (__builtin_add_overflow(sum, split, &sum)) {
      return -1;
    }
  }
  return sum;
}

/// `output`, which can be waited for from here on.
Tensor started(Tensor output, const WorkPtr& work) {
  registerWork(output, work);
  return output;
}

/// `dim` from the first one, of a tensor with `sizes`.
std::size_t dimension(const Sizes& sizes, int dim, std::string_view call) {
  const auto count = static_cast<int>(sizes.size());
  UNISONO_CHECK(dim >= -count && dim < count, call, " refused: dimension ", dim,
                " of a tensor with ", count, " dimensions");
  return static_cast<std::size_t>(dim < 0 ? dim + count : dim);
}

/// How many elements apart those of a tensor are.
Sizes stridesOf(const Tensor& tensor, const Sizes& sizes) {
  if (!tensor.isContiguous()) {
    return {tensor.strides().begin(), tensor.strides().end()};
  }
  Sizes strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  return strides;
}

/// Part `index` of `count` equal ones of `whole` along `dim`.
Tensor partOf(const Tensor& whole, std::size_t dim, std::int64_t count, std::int64_t index) {
  Sizes sizes = rowsOf(whole);
  const Sizes strides = stridesOf(whole, sizes);
  sizes[dim] /= count;
  const std::int64_t offset = index * sizes[dim] * strides[dim];
  auto* const first =
      whole.dataAs<std::byte>() + offset * static_cast<std::int64_t>(elementSize(whole.dtype()));
  return {first, whole.dtype(), Dims(sizes), Dims(strides), Device{}, whole.keepAlive()};
}

/// All of them along the first dimension.
std::vector<Tensor> rowsFor(const Tensor& whole, int count) {
  std::vector<Tensor> parts;
  for (int i = 0; i < count; ++i) {
    parts.push_back(partOf(whole, 0, count, i));
  }
  return parts;
}

/// One of `ranks` equal shares of a dimension. Throws UsageError when there are none.
std::int64_t shareOf(const Tensor& whole, std::size_t dim, int ranks, std::string_view call) {
  const std::int64_t size = rowsOf(whole)[dim];
  if (size % ranks != 0) {
    throw UsageError({.reason = Reason::USAGE,
                      .what = str(call, " refused: dimension ", dim, " of ", whole.describe(),
                                  " cannot be shared equally by ", ranks, " ranks"),
                      .hint = "pad it to a multiple of the size of the group"});
  }
  return size / ranks;
}

/// The `count` parts that lie in a row, one after the other along `dim`.
Tensor joined(const Tensor& row, const Sizes& part, std::size_t dim, std::int64_t count) {
  Sizes sizes = part;
  sizes[dim] *= count;
  Tensor whole = newTensor(sizes, row.dtype());
  const std::size_t bytes = row.bytes() / static_cast<std::size_t>(count);
  for (std::int64_t i = 0; bytes > 0 && i < count; ++i) {
    unpack(partOf(whole, dim, count, i),
           row.dataAs<const std::byte>() + static_cast<std::size_t>(i) * bytes);
  }
  return whole;
}

/// The way back: the parts along `dim`, in a row.
Tensor dealt(const Tensor& whole, std::size_t dim, std::int64_t count) {
  Tensor row = newTensor(rowsOf(whole), whole.dtype());
  const std::size_t bytes = row.bytes() / static_cast<std::size_t>(count);
  for (std::int64_t i = 0; bytes > 0 && i < count; ++i) {
    pack(row.dataAs<std::byte>() + static_cast<std::size_t>(i) * bytes,
         partOf(whole, dim, count, i));
  }
  return row;
}

}  // namespace

GroupRef::GroupRef(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {
  UNISONO_CHECK(group_ != nullptr, "a functional collective needs a group");
}

GroupRef::GroupRef(std::string_view name) : group_(resolveGroup(name)) {}

Tensor allReduce(const Tensor& input, ReduceOp op, const GroupRef& group) {
  Tensor output = copyOf(readable(input, "all_reduce"));
  const WorkPtr work = group->allreduce(output, {.reduceOp = op});
  return started(std::move(output), work);
}

Tensor broadcast(const Tensor& input, int root, const GroupRef& group) {
  Tensor output = copyOf(readable(input, "broadcast"));
  const WorkPtr work = group->broadcast(output, {.rootRank = root});
  return started(std::move(output), work);
}

Tensor reduce(const Tensor& input, ReduceOp op, int root, const GroupRef& group) {
  Tensor output = copyOf(readable(input, "reduce"));
  const WorkPtr work = group->reduce(output, {.reduceOp = op, .rootRank = root});
  return started(std::move(output), work);
}

Tensor gather(const Tensor& input, int root, const GroupRef& group) {
  const bool isRoot = group->rank() == root;
  const Tensor given = inOneRow(readable(input, "gather"));
  Sizes sizes = rowsOf(input);
  const Tensor row(given.data(), given.dtype(), Dims(sizes), Device{}, given.keepAlive());
  sizes[0] *= isRoot ? group->size() : 0;
  Tensor output = newTensor(sizes, input.dtype());
  const TensorLists slots = isRoot ? TensorLists{rowsFor(output, group->size())} : TensorLists{};
  const WorkPtr work = group->gather(slots, row, {.rootRank = root});
  return started(std::move(output), work);
}

Tensor scatter(const Tensor& input, int root, const GroupRef& group) {
  Sizes sizes = rowsOf(input);
  sizes[0] = shareOf(input, 0, group->size(), "scatter");
  const Tensor given = inOneRow(readable(input, "scatter"));
  Tensor output = newTensor(sizes, input.dtype());
  const bool isRoot = group->rank() == root;
  const TensorLists slots = isRoot ? TensorLists{rowsFor(given, group->size())} : TensorLists{};
  const WorkPtr work = group->scatter(output, slots, {.rootRank = root});
  return started(std::move(output), work);
}

Tensor allGather(const Tensor& input, int dim, const GroupRef& group) {
  const Sizes part = rowsOf(input);
  const std::size_t along = dimension(part, dim, "all_gather");
  Sizes sizes = part;
  sizes[0] *= group->size();
  const Tensor given = inOneRow(readable(input, "all_gather"));
  Tensor output = newTensor(sizes, input.dtype());
  const WorkPtr work = group->allGatherSingle(output, given);
  if (along == 0) {
    return started(std::move(output), work);
  }
  work->wait();
  return joined(output, part, along, group->size());
}

Tensor reduceScatter(const Tensor& input, ReduceOp op, int dim, const GroupRef& group) {
  Sizes sizes = rowsOf(input);
  const std::size_t along = dimension(sizes, dim, "reduce_scatter");
  sizes[along] = shareOf(input, along, group->size(), "reduce_scatter");
  const Tensor ready = readable(input, "reduce_scatter");
  const Tensor given = along == 0 ? inOneRow(ready) : dealt(ready, along, group->size());
  Tensor output = newTensor(sizes, input.dtype());
  const WorkPtr work = group->reduceScatterSingle(output, given, {.reduceOp = op});
  return started(std::move(output), work);
}

Tensor allToAll(const Tensor& input, std::span<const std::int64_t> outputSplits,
                std::span<const std::int64_t> inputSplits, const GroupRef& group) {
  UNISONO_CHECK(outputSplits.empty() == inputSplits.empty(),
                "all_to_all refused: the splits of output and input belong together: give both or "
                "none");
  const Tensor given = inOneRow(readable(input, "all_to_all"));
  Sizes sizes = rowsOf(input);
  if (!outputSplits.empty()) {
    sizes[0] = sumOf(outputSplits);
  }
  Tensor output = newTensor(sizes, input.dtype());
  const WorkPtr work =
      group->allToAllSingle(output, given, {outputSplits.begin(), outputSplits.end()},
                            {inputSplits.begin(), inputSplits.end()});
  return started(std::move(output), work);
}

Tensor permute(const Tensor& input, std::span<const int> sourceToTarget, const GroupRef& group) {
  const auto size = static_cast<std::size_t>(group->size());
  std::vector<int> sorted(sourceToTarget.begin(), sourceToTarget.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  UNISONO_CHECK(sorted == ranks, "permute refused: the list must name each of the ", size,
                " ranks once");
  const std::int64_t rows = rowsOf(input)[0];
  const auto self = static_cast<std::size_t>(group->rank());
  const auto source = std::find(sourceToTarget.begin(), sourceToTarget.end(), group->rank()) -
                      sourceToTarget.begin();
  Sizes given(size);
  Sizes taken(size);
  given[static_cast<std::size_t>(sourceToTarget[self])] = rows;
  taken[static_cast<std::size_t>(source)] = rows;
  return allToAll(input, taken, given, group);
}

std::vector<Tensor> allReduceCoalesced(std::span<const Tensor> inputs, ReduceOp op,
                                       const GroupRef& group) {
  std::vector<Tensor> outputs;
  for (const Tensor& input : inputs) {
    outputs.push_back(allReduce(input, op, group));
  }
  return outputs;
}

std::vector<Tensor> allGatherCoalesced(std::span<const Tensor> inputs, const GroupRef& group) {
  std::vector<Tensor> outputs;
  for (const Tensor& input : inputs) {
    outputs.push_back(allGather(input, 0, group));
  }
  return outputs;
}

std::vector<Tensor> reduceScatterCoalesced(std::span<const Tensor> inputs, ReduceOp op,
                                           std::span<const int> dims, const GroupRef& group) {
  UNISONO_CHECK(inputs.size() == dims.size(), "reduce_scatter refused: there are ", inputs.size(),
                " tensors, but ", dims.size(), " dimensions for them");
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    outputs.push_back(reduceScatter(inputs[i], op, dims[i], group));
  }
  return outputs;
}

}  // namespace unisono::functional
