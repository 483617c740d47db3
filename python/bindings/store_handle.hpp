// StoreHandle: what a store is in Python. The Python object holds a handle, the handle a store.
//
// Not the store itself, because the store may be shared with C++ (a PrefixStore keeps the store
// below it), because letting go of a server joins its thread, for which the interpreter's lock
// must be released, and because a class derived in Python needs a PythonStore in between.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>
#include <utility>

#include "unisono/store/store.hpp"

#include "bindings/python_store.hpp"

namespace unisono::python {

class StoreHandle {
 public:
  /// For a class derived in Python, whose object is `self`.
  explicit StoreHandle(nb::handle self);
  explicit StoreHandle(StorePtr store) noexcept : store_(std::move(store)) {}
  ~StoreHandle();
  StoreHandle(const StoreHandle&) = delete;
  StoreHandle& operator=(const StoreHandle&) = delete;

  const StorePtr& store() const noexcept { return store_; }

  /// The store behind this handle if its class was derived in Python, or null.
  PythonStore* python() const noexcept { return python_; }

  /// The store, for an operation that classes derived in Python must define themselves: when
  /// such a call arrives here, the class has none (NotSupportedError).
  Store& offering(const char* operation) const {
    if (python_ != nullptr) {
      python_->refuse(operation);
    }
    return *store_;
  }

 private:
  StorePtr store_;
  PythonStore* python_ = nullptr;
};

/// One type per Python class; the store inside is the C++ store of the same name.
struct TCPStoreHandle : StoreHandle {
  using StoreHandle::StoreHandle;
};
struct FileStoreHandle : StoreHandle {
  using StoreHandle::StoreHandle;
};
struct HashStoreHandle : StoreHandle {
  using StoreHandle::StoreHandle;
};
struct FakeStoreHandle : StoreHandle {
  using StoreHandle::StoreHandle;
};
struct PrefixStoreHandle : StoreHandle {
  PrefixStoreHandle(StorePtr store, nb::object below)
      : StoreHandle(std::move(store)), underlying(std::move(below)) {}
  nb::object underlying;  // the very object that the user passed
};

/// The store of a Python object, for C++ to keep: it keeps the Python object too where that
/// defines the operations. TypeError when it is no store.
StorePtr sharedStore(nb::handle object);

/// The Python object for a store that C++ made.
nb::object toPython(const StorePtr& store);

}  // namespace unisono::python
