#include "bindings/python_backend.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bindings/array.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/python_failure.hpp"
#include "bindings/work_handle.hpp"

namespace unisono::python {
namespace {

constexpr OpSet kAllButAllGatherSingle = {OpType::BROADCAST,
                                          OpType::ALLREDUCE,
                                          OpType::ALLREDUCE_COALESCED,
                                          OpType::REDUCE,
                                          OpType::ALLGATHER,
                                          OpType::ALLGATHER_COALESCED,
                                          OpType::GATHER,
                                          OpType::SCATTER,
                                          OpType::REDUCE_SCATTER,
                                          OpType::ALLTOALL_BASE,
                                          OpType::ALLTOALL,
                                          OpType::SEND,
                                          OpType::RECV,
                                          OpType::RECVANYSOURCE,
                                          OpType::BARRIER,
                                          OpType::REDUCE_SCATTER_BASE,
                                          OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                                          OpType::ALLGATHER_INTO_TENSOR_COALESCED};

PyObject* weakly(nb::handle object) {
  PyObject* const weak = PyWeakref_NewRef(object.ptr(), nullptr);
  if (weak == nullptr) {
    throw nb::python_error();
  }
  return weak;
}

/// As Group.submit() takes it.
nb::object toPython(const ReduceOp& op) {
  if (op.type() == RedOpType::PREMUL_SUM) {
    return nb::make_tuple("premul_sum", op.factor());
  }
  return python::toPython(unisono::name(op.type()));
}

nb::tuple toPython(const std::vector<std::int64_t>& splits) {
  nb::list numbers;
  for (const std::int64_t split : splits) {
    numbers.append(split);
  }
  return nb::tuple(numbers);
}

std::exception_ptr forgotten() {
  return std::make_exception_ptr(DistBackendError(
      {.reason = Reason::ABORTED,
       .what = "an operation written in Python was forgotten, and nobody can end it any more",
       .hint = "keep its Work, or its future, until it has ended"}));
}

}  // namespace

OpenWork::~OpenWork() {
  if (!ended_.load(std::memory_order_acquire)) {
    end(forgotten());
  }
}

void OpenWork::end(std::exception_ptr error, TensorList outputs) {
  ended_.store(true, std::memory_order_release);
  finish(std::move(error), std::move(outputs));
}

PythonBackend::PythonBackend(const BackendParams& params, std::string name, nb::handle core,
                             bool gathers)
    : Backend(params, {.ops = gathers ? OpSet::firstOf(kOpTypeCount) : kAllButAllGatherSingle}),
      name_(std::move(name)),
      weak_(weakly(core)) {}

PythonBackend::~PythonBackend() {
  forget(weak_);
}

WorkPtr PythonBackend::ask(const CollectiveArgs& args) const {
  const HeldLock lock;
  try {
    const nb::object core = call(nb::borrow(weak_), nb::make_tuple());
    if (core.is_none()) {
      throw UsageError({.reason = Reason::SHUTDOWN,
                        .what = str("the group of backend ", name_, " is gone"),
                        .hint = "keep the ProcessGroup as long as something works for it"});
    }
    const std::int64_t most = args.timeout == kUnsetTimeout ? -1 : args.timeout.count();
    const nb::object work =
        call(core.attr("submit"),
             nb::make_tuple(python::toPython(opName(args.type)), toArrays(args.inputs.toVector()),
                            toArrays(args.outputs.toVector()), toPython(args.reduceOp), args.root,
                            args.peer, args.tag, true, most, toPython(args.inputSplits),
                            toPython(args.outputSplits)));
    return nb::cast<const WorkHandle&>(work).work().shared_from_this();
  } catch (const nb::python_error& error) {
    throw PythonFailure(error.value());
  }
}

WorkPtr PythonBackend::start(CollectiveArgs&& args) {
  const WorkPtr inner = ask(args);
  const auto outer = std::make_shared<OpenWork>(args.type, args.seq);
  // Weakly: it holds the callback. Where it is gone, it has been forgotten.
  inner->addCallback([outer, weak = std::weak_ptr(inner), outputs = std::move(args.outputs)] {
    const WorkPtr ended = weak.lock();
    outer->end(ended ? ended->exception() : forgotten(), outputs);
  });
  return outer;
}

}  // namespace unisono::python
