#include "bindings/python_store.hpp"

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/store_handle.hpp"

namespace unisono::python {

template <typename... Arguments>
nb::object PythonStore::ask(std::initializer_list<const char*> names,
                            const Arguments&... arguments) const {
  return call(need(names), nb::make_tuple(arguments...));
}

namespace {

nb::list toList(std::span<const std::string> keys) {
  nb::list list;
  for (const std::string& key : keys) {
    list.append(toPython(key));
  }
  return list;
}

/// The bytes that a method returned. Text would leave open how it is encoded.
Bytes bytesFrom(const nb::object& result, const char* method) {
  if (PyUnicode_Check(result.ptr()) != 0) {
    refuseType(str("what ", method, "() returns").c_str(), "bytes", result);
  }
  const Text text(TextArg{result}, str("what ", method, "() returns").c_str());
  return {text.bytes().begin(), text.bytes().end()};
}

std::int64_t wholeFrom(const nb::object& result, const char* method) {
  return toWhole(result, str("what ", method, "() returns").c_str(), INT64_MIN, INT64_MAX);
}

bool truthOf(const nb::object& result) {
  const int truth = PyObject_IsTrue(result.ptr());
  if (truth < 0) {
    throw nb::python_error();
  }
  return truth != 0;
}

/// The words of PyTorch's Store, whose methods these are.
std::string lacking(std::string_view name) {
  return name.starts_with("queue") ? "queue support is not implemented"
         : name == "list_keys"     ? "listKeys support is not implemented"
                                   : "Not implemented";
}

}  // namespace

void PythonStore::refuse(const char* name) const {
  const HeldLock lock;
  const nb::str type = nb::borrow<nb::str>(self_.type().attr("__name__"));
  throw NotSupportedError(
      {.reason = Reason::USAGE,
       .what = str(name, " is not offered by the store ", type.c_str(), ": ", lacking(name)),
       .hint = str("define ", name, "() in ", type.c_str()),
       .op = name});
}

nb::object PythonStore::find(const char* name) const {
  // The methods of Store itself lead back here: they must not be taken for the class's own.
  const nb::object inherited = nb::getattr(nb::type<StoreHandle>(), name, nb::none());
  const bool ofClass = !nb::getattr(self_.type(), name, nb::none()).is(inherited);
  const bool ofObject =
      nb::hasattr(self_, "__dict__") && nb::cast<nb::dict>(self_.attr("__dict__")).contains(name);
  return ofClass || ofObject ? nb::getattr(self_, name) : nb::object(nb::none());
}

bool PythonStore::has(const char* name) const {
  const HeldLock lock;
  return !find(name).is_none();
}

nb::object PythonStore::need(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    nb::object found = find(name);
    if (!found.is_none()) {
      return found;
    }
  }
  refuse(*names.begin());
}

void PythonStore::set(std::string_view key, BytesView value) {
  const HeldLock lock;
  ask({"set"}, toPython(key), toPython(value));
}

Bytes PythonStore::get(std::string_view key) {
  const HeldLock lock;
  return bytesFrom(ask({"get"}, toPython(key)), "get");
}

Bytes PythonStore::compareSet(std::string_view key, BytesView expected, BytesView desired) {
  const HeldLock lock;
  return bytesFrom(ask({"compare_set"}, toPython(key), toPython(expected), toPython(desired)),
                   "compare_set");
}

std::int64_t PythonStore::add(std::string_view key, std::int64_t delta) {
  const HeldLock lock;
  return wholeFrom(ask({"add"}, toPython(key), delta), "add");
}

bool PythonStore::deleteKey(std::string_view key) {
  const HeldLock lock;
  return truthOf(ask({"delete_key", "deleteKey"}, toPython(key)));
}

bool PythonStore::check(std::span<const std::string> keys) {
  const HeldLock lock;
  return truthOf(ask({"check"}, toList(keys)));
}

void PythonStore::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) {
  const HeldLock lock;
  ask({"wait"}, toList(keys), toTimedelta(timeout));
}

void PythonStore::wait(std::span<const std::string> keys) {
  const HeldLock lock;
  ask({"wait"}, toList(keys));
}

std::int64_t PythonStore::numKeys() {
  const HeldLock lock;
  return wholeFrom(ask({"num_keys", "getNumKeys"}), "num_keys");
}

std::vector<std::string> PythonStore::listKeys() {
  const HeldLock lock;
  const nb::object keys = ask({"list_keys"});
  return toStrings(TextsArg{keys}, "what list_keys() returns");
}

void PythonStore::append(std::string_view key, BytesView value) {
  if (!has("append")) {
    Store::append(key, value);
    return;
  }
  const HeldLock lock;
  ask({"append"}, toPython(key), toPython(value));
}

std::vector<Bytes> PythonStore::getEach(std::span<const std::string> keys) {
  if (has("wait")) {
    wait(keys);
  }
  std::vector<Bytes> values;
  for (const std::string& key : keys) {
    values.push_back(get(key));
  }
  return values;
}

std::vector<Bytes> PythonStore::multiGet(std::span<const std::string> keys) {
  if (!has("multi_get")) {
    return getEach(keys);
  }
  const HeldLock lock;
  const nb::object answer = ask({"multi_get"}, toList(keys));
  std::vector<Bytes> values = toValues(TextsArg{answer}, "what multi_get() returns");
  if (values.size() != keys.size()) {  // callers count on a value for each key
    throw nb::value_error(str("what multi_get() returns must be ", keys.size(),
                              " values, one for each key, but is ", values.size())
                              .c_str());
  }
  return values;
}

void PythonStore::multiSet(std::span<const std::string> keys, std::span<const Bytes> values) {
  if (!has("multi_set")) {
    Store::multiSet(keys, values);
    return;
  }
  const HeldLock lock;
  ask({"multi_set"}, toList(keys), toPython(values));
}

void PythonStore::queuePush(std::string_view key, BytesView value) {
  const HeldLock lock;
  ask({"queue_push"}, toPython(key), toPython(value));
}

Bytes PythonStore::queuePop(std::string_view key, bool block) {
  const HeldLock lock;
  return bytesFrom(ask({"queue_pop"}, toPython(key), block), "queue_pop");
}

std::int64_t PythonStore::queueLen(std::string_view key) {
  const HeldLock lock;
  return wholeFrom(ask({"queue_len"}, toPython(key)), "queue_len");
}

void PythonStore::barrier(std::string_view key, std::int64_t worldSize,
                          std::chrono::milliseconds timeout) {
  if (!has("barrier")) {
    Store::barrier(key, worldSize, timeout);
    return;
  }
  const HeldLock lock;
  ask({"barrier"}, toPython(key), worldSize, toTimedelta(timeout));
}

bool PythonStore::hasExtendedApi() const {
  const HeldLock lock;
  const nb::object method = find("has_extended_api");
  return !method.is_none() && truthOf(call(method, nb::make_tuple()));
}

std::shared_ptr<Store> PythonStore::clone() {
  const HeldLock lock;
  return sharedStore(ask({"clone"}));
}

}  // namespace unisono::python
