// Group: ranks that work together. One method starts every operation; unisono/_group.py has the
// names and arguments that users know.
#include <algorithm>
#include <cctype>
#include <memory>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"
#include "unisono/group/group.hpp"

#include "base/str.hpp"
#include "bindings/array.hpp"
#include "bindings/bind.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/group_handle.hpp"
#include "bindings/store_handle.hpp"
#include "bindings/work_handle.hpp"

namespace unisono::python {
namespace {

OpType operationNamed(std::string_view wanted) {
  for (int i = 0; i < kOpTypeCount; ++i) {
    if (const auto type = static_cast<OpType>(i); opName(type) == wanted) {
      return type;
    }
  }
  throw nb::value_error(str("there is no operation ", wanted).c_str());
}

/// By its name, in lower or upper case.
RedOpType reductionNamed(nb::handle op) {
  const std::string wanted = Text(TextArg{op}, "op").string();
  std::string upper = wanted;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  for (int i = 0; i < static_cast<int>(RedOpType::PREMUL_SUM); ++i) {
    if (const auto type = static_cast<RedOpType>(i); name(type) == upper) {
      return type;
    }
  }
  throw UsageError({.reason = Reason::USAGE,
                    .what = str("op '", wanted, "' is not known"),
                    .hint = "one of sum, avg, product, min, max, band, bor, bxor, or what "
                            "unisono.premul_sum(factor) gives"});
}

/// By its name, or as ("premul_sum", factor).
ReduceOp toReduction(nb::handle op) {
  if (PyUnicode_Check(op.ptr()) != 0) {
    const bool isUsual = PyUnicode_CompareWithASCIIString(op.ptr(), "sum") == 0;
    return isUsual ? ReduceOp(RedOpType::SUM) : ReduceOp(reductionNamed(op));
  }
  if (PyTuple_Check(op.ptr()) != 0 && PyTuple_GET_SIZE(op.ptr()) == 2 &&
      nb::str("premul_sum").equal(op[0])) {
    return ReduceOp::preMulSum(nb::cast<double>(op[1]));
  }
  refuseType("op", "a str", op);
}

/// Of an operation; below 0 that of its group.
std::chrono::milliseconds timeoutOf(std::int64_t milliseconds) {
  return milliseconds < 0 ? kUnsetTimeout : std::chrono::milliseconds(milliseconds);
}

int toInt(nb::handle number, const char* name) {
  return static_cast<int>(toWhole(number, name, INT32_MIN, INT32_MAX));
}

std::vector<std::int64_t> toSplits(nb::handle numbers, const char* name) {
  std::vector<std::int64_t> splits;
  for (const nb::handle number : nb::borrow<nb::sequence>(numbers)) {
    splits.push_back(toWhole(number, name, INT64_MIN, INT64_MAX));
  }
  return splits;
}

/// What an operation is told beside its arrays, as Python passes it.
struct Details {
  nb::handle op;
  nb::handle root;
  nb::handle peer;
  nb::handle tag;
  bool async;
  std::int64_t milliseconds;  // see timeoutOf()
  nb::handle inputSplits;
  nb::handle outputSplits;
};

TensorList tensorsOf(nb::handle arrays, Access access,
                     std::vector<std::shared_ptr<const void>>& kept) {
  std::vector<Tensor> tensors;
  for (const nb::handle array : nb::borrow<nb::sequence>(arrays)) {
    tensors.push_back(toTensor(array, access));
    kept.push_back(tensors.back().keepAlive());
  }
  return TensorList(std::move(tensors));
}

std::unique_ptr<WorkHandle> submit(const GroupHandle& self, const std::string& operation,
                                   nb::handle inputs, nb::handle outputs, const Details& details) {
  const Group group = self.get();
  std::vector<std::shared_ptr<const void>> kept;
  CollectiveArgs args{.type = operationNamed(operation),
                      .asyncOp = details.async,
                      .reduceOp = toReduction(details.op)};
  args.root = isRooted(args.type) ? toInt(details.root, "root") : -1;
  args.peer = toInt(details.peer, "the other rank");
  args.tag = toInt(details.tag, "tag");
  args.timeout = timeoutOf(details.milliseconds);
  args.inputs = tensorsOf(inputs, Access::READ, kept);
  args.outputs = tensorsOf(outputs, Access::WRITE, kept);
  args.inputSplits = toSplits(details.inputSplits, "input_splits");
  args.outputSplits = toSplits(details.outputSplits, "output_splits");
  WorkPtr work = withoutLock([&] {
    WorkPtr begun = group.processGroup().submit(std::move(args));
    if (!details.async) {
      begun->wait();
    }
    return begun;
  });
  return std::make_unique<WorkHandle>(std::move(work), std::move(kept));
}

/// What is called most, without what only others need: one array in place, until it is done.
void runInPlace(const GroupHandle& self, OpType type, nb::handle array, nb::handle op,
                nb::handle root) {
  const Group group = self.get();
  const Tensor tensor = toTensor(array, Access::WRITE);  // which goes with the lock held
  CollectiveArgs args;
  args.type = type;
  args.asyncOp = false;
  if (op) {
    args.reduceOp = toReduction(op);
  }
  if (root) {
    args.root = toInt(root, "root");
  }
  args.outputs = TensorList{tensor};
  withoutLock([&] { group.processGroup().submit(std::move(args))->wait(); });
}

std::vector<std::vector<int>> toLists(nb::handle lists) {
  std::vector<std::vector<int>> all;
  for (const nb::handle list : nb::borrow<nb::sequence>(lists)) {
    std::vector<int>& ranks = all.emplace_back();
    for (const nb::handle rank : nb::borrow<nb::sequence>(list)) {
      ranks.push_back(toInt(rank, "a rank"));
    }
  }
  return all;
}

std::unique_ptr<GroupHandle> handleOf(std::optional<Group> group) {
  return group ? std::make_unique<GroupHandle>(std::move(*group)) : nullptr;
}

using Self = const GroupHandle&;

void bindOperations(nb::class_<GroupHandle>& type) {
  type.def(
          "submit",
          [](Self self, const std::string& operation, nb::sequence inputs, nb::sequence outputs,
             nb::handle op, nb::handle root, nb::handle peer, nb::handle tag, bool async,
             std::int64_t milliseconds, nb::sequence inputSplits, nb::sequence outputSplits) {
            return submit(self, operation, inputs, outputs,
                          {op, root, peer, tag, async, milliseconds, inputSplits, outputSplits});
          },
          nb::arg("operation"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("op").none(),
          nb::arg("root").none(), nb::arg("peer").none(), nb::arg("tag").none(),
          nb::arg("async_op"), nb::arg("milliseconds"), nb::arg("input_splits"),
          nb::arg("output_splits"),
          nb::sig("def submit(self, operation: str, inputs: collections.abc.Sequence[object], "
                  "outputs: collections.abc.Sequence[object], op: object, root: int, "
                  "peer: int, tag: int, "
                  "async_op: bool, milliseconds: int, input_splits: collections.abc.Sequence[int], "
                  "output_splits: collections.abc.Sequence[int]) -> Work"),
          "Starts an operation, and waits for it unless `async_op`.")
      .def(
          "monitored_barrier",
          [](Self self, std::int64_t milliseconds, bool waitAllRanks) {
            const Group group = self.get();
            const BarrierOptions options{.timeout = timeoutOf(milliseconds)};
            withoutLock([&] { group.processGroup().monitoredBarrier(options, waitAllRanks); });
          },
          nb::arg("milliseconds"), nb::arg("wait_all_ranks"),
          "Waits for all ranks; rank 0 says who has not come.");
}

/// Ways of their own for what is called most.
void bindShortcuts(nb::class_<GroupHandle>& type) {
  type.def(
          "all_reduce",
          [](Self self, nb::handle array, nb::handle op) {
            runInPlace(self, OpType::ALLREDUCE, array, op, {});
          },
          nb::arg("array").none(), nb::arg("op").none(),
          nb::sig("def all_reduce(self, array: object, op: object) -> None"),
          "As submit(), for an array in place and without a timeout of its own; it waits.")
      .def(
          "reduce",
          [](Self self, nb::handle array, nb::handle root, nb::handle op) {
            runInPlace(self, OpType::REDUCE, array, op, root);
          },
          nb::arg("array").none(), nb::arg("root").none(), nb::arg("op").none(),
          nb::sig("def reduce(self, array: object, root: int, op: object) -> None"),
          "As all_reduce().")
      .def(
          "broadcast",
          [](Self self, nb::handle array, nb::handle root) {
            runInPlace(self, OpType::BROADCAST, array, {}, root);
          },
          nb::arg("array").none(), nb::arg("root").none(),
          nb::sig("def broadcast(self, array: object, root: int) -> None"), "As all_reduce().")
      .def(
          "barrier",
          [](Self self) {
            const Group group = self.get();
            withoutLock([&] {
              CollectiveArgs args;
              args.type = OpType::BARRIER;
              args.asyncOp = false;
              group.processGroup().submit(std::move(args))->wait();
            });
          },
          "As all_reduce(), with no array.");
}

using Octets = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

/// Memory of the group's, which goes with the last array that looks at it.
Octets allocate(const GroupHandle& self, std::int64_t bytes) {
  Group group = self.get();
  auto held =
      std::make_unique<Tensor>(withoutLock([&] { return group.allocate(bytes, DType::UINT8); }));
  void* const data = held->data();
  const nb::capsule owner(held.release(),
                          [](void* tensor) noexcept { delete static_cast<Tensor*>(tensor); });
  return {data, {static_cast<std::size_t>(bytes)}, owner};
}

void bindMaking(nb::class_<GroupHandle>& type) {
  type.def(
          "split",
          [](Self self, nb::handle color, nb::handle name) {
            Group group = self.get();
            const auto wanted =
                color.is_none() ? std::nullopt : std::optional(toInt(color, "color"));
            const std::string called = Text(TextArg{name}, "name").string();
            return handleOf(withoutLock([&] { return group.split(wanted, called); }));
          },
          nb::arg("color").none(), nb::arg("name").none(),
          nb::sig("def split(self, color: int | None, name: str) -> Group | None"),
          "A group of those who give the same color; None for who gives none.")
      .def(
          "split_group",
          [](Self self, nb::sequence lists, std::int64_t milliseconds, const std::string& desc,
             bool sortRanks) {
            Group group = self.get();
            NewGroupOptions options{.desc = desc, .sortRanks = sortRanks};
            if (milliseconds >= 0) {
              options.timeout = std::chrono::milliseconds(milliseconds);
            }
            const std::vector<std::vector<int>> all = toLists(lists);
            return handleOf(withoutLock([&] {
              return all.size() == 1 ? group.newGroup(all[0], options)
                                     : group.splitGroup(all, options);
            }));
          },
          nb::arg("lists"), nb::arg("milliseconds"), nb::arg("desc"), nb::arg("sort_ranks"),
          nb::sig("def split_group(self, lists: collections.abc.Sequence[list[int]], "
                  "milliseconds: int, desc: str, sort_ranks: bool) -> Group | None"),
          "The group, one for each list of ranks, that this one is in, or None.")
      .def(
          "set_timeout",
          [](Self self, std::int64_t milliseconds) {
            const Group group = self.get();
            group.processGroup().setTimeout(std::chrono::milliseconds(milliseconds));
          },
          nb::arg("milliseconds"), "Sets how long operations may take that have no timeout.")
      .def("allocate", allocate, nb::arg("bytes"),
           nb::sig("def allocate(self, bytes: int) -> object"),
           "An array of NumPy's, of so many zeros, that the other ranks reach where it is.")
      .def(
          "close",
          [](GroupHandle& self) {
            const Group group = self.get();
            withoutLock([&] { destroyProcessGroup(group); });
          },
          "Ends it in order: waits for operations under way.")
      .def(
          "abort",
          [](Self self) {
            const Group group = self.get();
            withoutLock([&] { group.processGroup().abort(); });
          },
          "Fails what is under way, here and elsewhere.")
      .def(
          "leave", [](GroupHandle& self) { self.leave(); },
          "Lets go of it: operations under way have a moment to end.");
}

}  // namespace

void bindGroup(nb::module_& module) {
  nb::class_<GroupHandle> type(module, "Group", "Ranks that work together.");
  type.def_prop_ro(
          "rank", [](Self self) { return self.get().rank(); }, "The rank of this one.")
      .def_prop_ro(
          "size", [](Self self) { return self.get().size(); }, "How many ranks there are.")
      .def_prop_ro(
          "name", [](Self self) { return toPython(self.get().name()); }, "The name of the group.")
      .def_prop_ro(
          "desc", [](Self self) { return toPython(self.get().processGroup().groupDesc()); },
          "What was said of the group when it was made.");
  bindOperations(type);
  bindShortcuts(type);
  bindMaking(type);
  module.def(
      "init_group",
      [](nb::handle url, nb::handle store, nb::handle rank, nb::handle size,
         const std::string& name, const std::string& backend, std::int64_t milliseconds) {
        InitOptions options{.backend = backend, .name = name};
        if (!url.is_none()) {
          options.url = Text(TextArg{url}, "url").string();
        }
        if (!store.is_none()) {
          options.store = sharedStore(store);
        }
        if (!rank.is_none()) {
          options.rank = toInt(rank, "rank");
        }
        if (!size.is_none()) {
          options.size = toInt(size, "size");
        }
        if (milliseconds >= 0) {
          options.timeout = std::chrono::milliseconds(milliseconds);
        }
        return std::make_unique<GroupHandle>(withoutLock([&] { return init(options); }));
      },
      nb::arg("url").none(), nb::arg("store").none(), nb::arg("rank").none(),
      nb::arg("size").none(), nb::arg("name"), nb::arg("backend"), nb::arg("milliseconds"),
      nb::sig("def init_group(url: str | None, store: Store | None, rank: int | None, "
              "size: int | None, name: str, backend: str, milliseconds: int) -> Group"),
      "Meets the other ranks at `url` or `store`; what is None the launcher says.");
}

}  // namespace unisono::python
