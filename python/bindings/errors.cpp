#include "bindings/errors.hpp"

#include <exception>
#include <nanobind/nanobind.h>

#include "unisono/base/error.hpp"

#include "bindings/convert.hpp"
#include "bindings/python_failure.hpp"

namespace unisono::python {
namespace {

/// The class for a collective that failed: users catch the common reasons by name.
const char* backendClass(Reason reason) {
  switch (reason) {
    case Reason::PEER_DEAD:
      return "PeerDeadError";
    case Reason::MISMATCH:
      return "MismatchError";
    case Reason::ABORTED:
      return "AbortedError";
    default:
      return "DistBackendError";
  }
}

/// The name of the class in unisono/_errors.py that stands for `error`.
const char* className(const DistError& error) {
  const bool wrongArgument = error.reason() == Reason::USAGE;
  if (dynamic_cast<const NotSupportedError*>(&error) != nullptr) {
    return "NotSupportedError";
  }
  if (dynamic_cast<const UsageError*>(&error) != nullptr) {
    return wrongArgument || error.reason() == Reason::LIMIT ? "UsageError" : "DistError";
  }
  if (dynamic_cast<const DistQueueEmptyError*>(&error) != nullptr) {
    return "QueueEmptyError";
  }
  if (dynamic_cast<const DistStoreError*>(&error) != nullptr) {
    return wrongArgument ? "StoreValueError" : "DistStoreError";
  }
  if (dynamic_cast<const DistNetworkError*>(&error) != nullptr) {
    return "DistNetworkError";
  }
  if (dynamic_cast<const DistTimeoutError*>(&error) != nullptr) {
    return "DistTimeoutError";
  }
  if (dynamic_cast<const DistAuthError*>(&error) != nullptr) {
    return "DistAuthError";
  }
  if (dynamic_cast<const DistBackendError*>(&error) != nullptr) {
    return backendClass(error.reason());
  }
  return "DistError";
}

void setFields(const nb::object& exception, const ErrorFacts& facts) {
  exception.attr("reason") = toPython(token(facts.reason));
  exception.attr("hint") = toPython(facts.hint);
  exception.attr("op") = toPython(facts.op);
  exception.attr("group") = toPython(facts.group);
  exception.attr("host") = toPython(facts.host);
  nb::list culprits;
  for (const int culprit : facts.culprits) {
    culprits.append(culprit);
  }
  exception.attr("culprits") = nb::tuple(culprits);
  if (facts.seq) {
    exception.attr("seq") = *facts.seq;
  }
  if (facts.rank >= 0) {
    exception.attr("rank") = facts.rank;
  }
  if (facts.world >= 0) {
    exception.attr("world") = facts.world;
  }
  if (facts.elapsed) {
    exception.attr("elapsed_ms") = facts.elapsed->count();
  }
}

void raise(const DistError& error) {
  // Looked up each time: a reference of our own would outlive the interpreter.
  const nb::object type = nb::module_::import_("unisono._errors").attr(className(error));
  const nb::object exception = type(error.what());
  setFields(exception, error.facts());
  PyErr_SetObject(type.ptr(), exception.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const PythonFailure& failure) {
    failure.raise();
  } catch (const DistError& error) {
    try {
      raise(error);
    } catch (const std::exception&) {  // no memory, or the interpreter is half gone
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  }
}

}  // namespace

void translateErrors() {
  nb::register_exception_translator(translate);
}

}  // namespace unisono::python
