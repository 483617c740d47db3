#include "bindings/store_handle.hpp"

#include "unisono/store/fake_store.hpp"
#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "base/str.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"

namespace unisono::python {

StoreHandle::StoreHandle(nb::handle self) {
  auto made = std::make_shared<PythonStore>(self);
  python_ = made.get();
  store_ = std::move(made);
}

StoreHandle::~StoreHandle() {
  withoutLock([this] { store_.reset(); });
}

StorePtr sharedStore(nb::handle object) {
  if (!nb::isinstance<StoreHandle>(object)) {
    refuseType("store", "a Store", object);
  }
  if (!nb::inst_ready(object)) {
    const nb::str type = nb::borrow<nb::str>(object.type().attr("__name__"));
    throw nb::type_error(
        str("store is a ", type.c_str(), " whose __init__() did not call super().__init__()")
            .c_str());
  }
  const auto& handle = nb::cast<const StoreHandle&>(object);
  if (handle.python() == nullptr) {
    return handle.store();
  }
  // Shares the ownership of the Python object, and points to the store inside it.
  const std::shared_ptr<PyObject> keep(nb::borrow(object).release().ptr(), forget);
  return StorePtr(keep, handle.python());
}

nb::object toPython(const StorePtr& store) {
  if (const auto* python = dynamic_cast<const PythonStore*>(store.get())) {
    return nb::borrow(python->self());
  }
  if (dynamic_cast<const TCPStore*>(store.get()) != nullptr) {
    return nb::cast(new TCPStoreHandle(store), nb::rv_policy::take_ownership);
  }
  if (dynamic_cast<const FileStore*>(store.get()) != nullptr) {
    return nb::cast(new FileStoreHandle(store), nb::rv_policy::take_ownership);
  }
  if (dynamic_cast<const HashStore*>(store.get()) != nullptr) {
    return nb::cast(new HashStoreHandle(store), nb::rv_policy::take_ownership);
  }
  if (dynamic_cast<const FakeStore*>(store.get()) != nullptr) {
    return nb::cast(new FakeStoreHandle(store), nb::rv_policy::take_ownership);
  }
  if (const auto* prefix = dynamic_cast<const PrefixStore*>(store.get())) {
    return nb::cast(new PrefixStoreHandle(store, toPython(prefix->underlyingStore())),
                    nb::rv_policy::take_ownership);
  }
  return nb::cast(new StoreHandle(store), nb::rv_policy::take_ownership);
}

}  // namespace unisono::python
