// The class Store: everything that all stores have.
#include "unisono/store/prefix_store.hpp"

#include "base/str.hpp"
#include "bindings/bind.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/store_handle.hpp"

namespace unisono::python {
namespace {

using Self = const StoreHandle&;
using Class = nb::class_<StoreHandle>;

void bindLife(Class& type) {
  type.def(
          "__init__",
          [](nb::pointer_and_handle<StoreHandle> self) { new (self.p) StoreHandle(self.h); },
          "For classes derived in Python, which define set, get, add and so on themselves.")
      .def(
          "clone",
          [](Self self) -> nb::typed<nb::object, StoreHandle> {
            Store& origin = self.offering("clone");
            const StorePtr twin = withoutLock([&] { return origin.clone(); });
            return twin == self.store() ? nb::find(self) : toPython(twin);
          },
          "Another client of the same data, with a connection of its own.")
      .def_prop_ro(
          "timeout",
          [](Self self) -> nb::typed<nb::object, std::chrono::milliseconds> {
            return toTimedelta(self.store()->timeout());
          },
          nb::sig("def timeout(self) -> datetime.timedelta"),
          "How long calls wait that are not given a timeout.")
      .def(
          "set_timeout",
          [](Self self, DurationArg timeout) {
            self.store()->setTimeout(toDuration(timeout, "timeout"));
          },
          nb::arg("timeout"), "Sets how long later calls wait.")
      .def(
          "has_extended_api",
          [](Self self) {
            return self.python() != nullptr ? false : self.store()->hasExtendedApi();
          },
          "Whether append, multi_get and multi_set are done in one step.");
}

void bindValues(Class& type) {
  type.def(
          "set",
          [](Self self, TextArg key, TextArg value) {
            const Text name(key, "key");
            const Text bytes(value, "value");
            Store& store = self.offering("set");
            withoutLock([&] { store.set(name.view(), bytes.bytes()); });
          },
          nb::arg("key"), nb::arg("value"), "Sets `key`, and wakes those who wait for it.")
      .def(
          "get",
          [](Self self, TextArg key) {
            const Text name(key, "key");
            Store& store = self.offering("get");
            return toPython(withoutLock([&] { return store.get(name.view()); }));
          },
          nb::arg("key"), "The value of `key`; waits up to the timeout for it to be set.")
      .def(
          "compare_set",
          [](Self self, TextArg key, TextArg expected, TextArg desired) {
            const Text name(key, "key");
            const Text before(expected, "expected_value");
            const Text after(desired, "desired_value");
            Store& store = self.offering("compare_set");
            return toPython(withoutLock(
                [&] { return store.compareSet(name.view(), before.bytes(), after.bytes()); }));
          },
          nb::arg("key"), nb::arg("expected_value"), nb::arg("desired_value"),
          "Sets `key` if its value is the expected one; returns the value after that.")
      .def(
          "add",
          [](Self self, TextArg key, nb::typed<nb::handle, int> amount) {
            const Text name(key, "key");
            const std::int64_t delta = toWhole(amount, "amount", INT64_MIN, INT64_MAX);
            Store& store = self.offering("add");
            return withoutLock([&] { return store.add(name.view(), delta); });
          },
          nb::arg("key"), nb::arg("amount"), "Adds to the counter `key`, and returns the sum.")
      .def(
          "append",
          [](Self self, TextArg key, TextArg value) {
            const Text name(key, "key");
            const Text bytes(value, "value");
            withoutLock([&] {
              if (PythonStore* python = self.python()) {
                python->Store::append(name.view(), bytes.bytes());
              } else {
                self.store()->append(name.view(), bytes.bytes());
              }
            });
          },
          nb::arg("key"), nb::arg("value"), "Appends to the value of `key`, or sets it.");
}

void bindKeys(Class& type) {
  type.def(
          "check",
          [](Self self, TextsArg keys) {
            const std::vector<std::string> names = toStrings(keys, "keys");
            Store& store = self.offering("check");
            return withoutLock([&] { return store.check(names); });
          },
          nb::arg("keys"), "Whether all `keys` are set now.")
      .def(
          "delete_key",
          [](Self self, TextArg key) {
            const Text name(key, "key");
            Store& store = *self.store();  // a class in Python may have it by another name
            return withoutLock([&] { return store.deleteKey(name.view()); });
          },
          nb::arg("key"), "Removes `key`; returns whether it was there.")
      .def(
          "num_keys",
          [](Self self) {
            Store& store = *self.store();  // a class in Python may have it by another name
            return withoutLock([&] { return store.numKeys(); });
          },
          "How many keys there are, the store's own included.")
      .def(
          "list_keys",
          [](Self self) -> nb::typed<nb::list, nb::str> {
            Store& store = self.offering("list_keys");
            nb::list list;
            for (const std::string& key : withoutLock([&] { return store.listKeys(); })) {
              list.append(toPython(std::string_view(key)));
            }
            return list;
          },
          "The keys that users set, in no particular order.");
}

/// A wait that names no timeout. To a store written in Python, which may lie below prefixes, it
/// goes without one: its wait() need not take any.
void waitAsUsual(Store& store, std::vector<std::string> keys) {
  Store* at = &store;
  while (const auto* prefixed = dynamic_cast<const PrefixStore*>(at)) {
    for (std::string& key : keys) {
      key = str(prefixed->prefix(), "/", key);
    }
    at = prefixed->underlyingStore().get();
  }
  if (auto* python = dynamic_cast<PythonStore*>(at)) {
    python->wait(keys);
  } else {
    at->wait(keys, at->timeout());
  }
}

void bindWaits(Class& type) {
  type.def(
          "wait",
          [](Self self, TextsArg keys) {
            const std::vector<std::string> names = toStrings(keys, "keys");
            Store& store = self.offering("wait");
            withoutLock([&] { waitAsUsual(store, names); });
          },
          nb::arg("keys"), "Waits until all `keys` are set.")
      .def(
          "wait",
          [](Self self, TextsArg keys, DurationArg timeout) {
            const std::vector<std::string> names = toStrings(keys, "keys");
            const std::chrono::milliseconds most = toDuration(timeout, "timeout");
            Store& store = self.offering("wait");
            withoutLock([&] { store.wait(names, most); });
          },
          nb::arg("keys"), nb::arg("timeout"), "Waits until all `keys` are set.")
      .def(
          "barrier",
          [](Self self, TextArg key, nb::typed<nb::handle, int> worldSize, DurationArg timeout) {
            const Text name(key, "key");
            const std::int64_t size = toWhole(worldSize, "world_size", INT64_MIN, INT64_MAX);
            const std::chrono::milliseconds most =
                timeout.object.is_none() ? self.store()->timeout() : toDuration(timeout, "timeout");
            withoutLock([&] {
              if (PythonStore* python = self.python()) {
                python->Store::barrier(name.view(), size, most);
              } else {
                self.store()->barrier(name.view(), size, most);
              }
            });
          },
          nb::sig("def barrier(self, key: str | bytes | bytearray, world_size: int, "
                  "timeout: datetime.timedelta | float | None = None) -> None"),
          nb::arg("key"), nb::arg("world_size"), nb::arg("timeout").none() = nb::none(),
          "Waits until `world_size` callers have arrived at `key`; use a fresh key each time.");
}

void bindMany(Class& type) {
  type.def(
          "multi_get",
          [](Self self, TextsArg keys) -> nb::typed<nb::list, nb::bytes> {
            const std::vector<std::string> names = toStrings(keys, "keys");
            const std::vector<Bytes> values = withoutLock([&] {
              PythonStore* const python = self.python();
              return python != nullptr ? python->getEach(names) : self.store()->multiGet(names);
            });
            return toPython(values);
          },
          nb::arg("keys"), "The values of all `keys`, in order; waits up to the timeout for them.")
      .def(
          "multi_set",
          [](Self self, TextsArg keys, TextsArg values) {
            const std::vector<std::string> names = toStrings(keys, "keys");
            const std::vector<Bytes> bytes = toValues(values, "values");
            withoutLock([&] {
              if (PythonStore* python = self.python()) {
                python->Store::multiSet(names, bytes);
              } else {
                self.store()->multiSet(names, bytes);
              }
            });
          },
          nb::arg("keys"), nb::arg("values"),
          "Sets all `keys`, each to the value at the same place.");
}

void bindQueues(Class& type) {
  type.def(
          "queue_push",
          [](Self self, TextArg key, TextArg value) {
            const Text name(key, "key");
            const Text bytes(value, "value");
            Store& store = self.offering("queue_push");
            withoutLock([&] { store.queuePush(name.view(), bytes.bytes()); });
          },
          nb::arg("key"), nb::arg("value"), "Appends to the queue `key`.")
      .def(
          "queue_pop",
          [](Self self, TextArg key, nb::typed<nb::handle, bool> block) {
            const Text name(key, "key");
            const bool wait = toFlag(block, "block");
            Store& store = self.offering("queue_pop");
            return toPython(withoutLock([&] { return store.queuePop(name.view(), wait); }));
          },
          nb::arg("key"), nb::arg("block") = true,
          "Takes the oldest element of the queue; waits for one if `block`.")
      .def(
          "queue_len",
          [](Self self, TextArg key) {
            const Text name(key, "key");
            Store& store = self.offering("queue_len");
            return withoutLock([&] { return store.queueLen(name.view()); });
          },
          nb::arg("key"), "How many elements the queue holds.");
}

}  // namespace

void bindStore(nb::module_& module) {
  Class store(module, "Store", nb::is_weak_referenceable(),
              "The key-value service through which the ranks of a job find each other.");
  bindLife(store);
  bindValues(store);
  bindKeys(store);
  bindWaits(store);
  bindMany(store);
  bindQueues(store);
}

}  // namespace unisono::python
