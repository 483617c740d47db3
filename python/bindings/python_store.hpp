// PythonStore: a store whose operations are methods of a Python class derived from Store.
#pragma once

#include <initializer_list>
#include <nanobind/nanobind.h>

#include "unisono/store/store.hpp"

namespace unisono::python {

namespace nb = nanobind;

/// Calls go to the methods of `self`, under the names of torch.distributed.Store; delete_key and
/// num_keys also under torch's older deleteKey and getNumKeys. What the class does not define
/// falls back to the C++ default or is refused (NotSupportedError). An exception raised by a
/// method passes through as itself.
///
/// Threads: called without the interpreter's lock; takes it for each call.
class PythonStore final : public Store {
 public:
  /// `self` owns this object, and so outlives it.
  explicit PythonStore(nb::handle self) noexcept : self_(self) {}

  nb::handle self() const noexcept { return self_; }

  void set(std::string_view key, BytesView value) override;
  Bytes get(std::string_view key) override;
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  bool deleteKey(std::string_view key) override;
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  /// For a call that names no timeout: how long it waits is for the class to say.
  void wait(std::span<const std::string> keys);
  std::int64_t numKeys() override;
  std::vector<std::string> listKeys() override;
  void append(std::string_view key, BytesView value) override;
  std::vector<Bytes> multiGet(std::span<const std::string> keys) override;
  void multiSet(std::span<const std::string> keys, std::span<const Bytes> values) override;
  void queuePush(std::string_view key, BytesView value) override;
  Bytes queuePop(std::string_view key, bool block) override;
  std::int64_t queueLen(std::string_view key) override;
  void barrier(std::string_view key, std::int64_t worldSize,
               std::chrono::milliseconds timeout) override;
  bool hasExtendedApi() const override;
  std::shared_ptr<Store> clone() override;

  /// What multiGet() is where the class does not define it.
  std::vector<Bytes> getEach(std::span<const std::string> keys);

  /// Throws NotSupportedError: the class has no method `name`.
  [[noreturn]] void refuse(const char* name) const;

 private:
  /// The method of that name, if the Python class or object has one of its own.
  nb::object find(const char* name) const;
  bool has(const char* name) const;
  /// The first of `names` that there is; refuses when there is none.
  nb::object need(std::initializer_list<const char*> names) const;
  /// Calls that one.
  template <typename... Arguments>
  nb::object ask(std::initializer_list<const char*> names, const Arguments&... arguments) const;

  nb::handle self_;
};

}  // namespace unisono::python
