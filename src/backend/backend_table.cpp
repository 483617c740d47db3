#include "unisono/backend/backend_table.hpp"

#include <algorithm>

#include "unisono/backend/fake_backend.hpp"

#include "backend/native/native_backend.hpp"
#include "base/check.hpp"
#include "base/mutex.hpp"

namespace unisono {
namespace {

struct BuiltIn {
  std::string_view name;
  DeviceSet devices;
  std::shared_ptr<Backend> (*make)(const BackendParams&);
};

/// A backend of the library is a row here.
constexpr BuiltIn kBuiltIn[] = {
    {"unisono",
     {DeviceType::CPU},
     [](const BackendParams& params) -> std::shared_ptr<Backend> {
       return std::make_shared<NativeBackend>(params);
     }},
    {"fake",
     {DeviceType::CPU, DeviceType::CUDA, DeviceType::XPU, DeviceType::META},
     [](const BackendParams& params) -> std::shared_ptr<Backend> {
       return std::make_shared<FakeBackend>(params);
     }},
};

struct Row {
  std::string name;
  DeviceSet devices;
  BackendFactory make;
};

/// What programs have registered. Never destroyed: groups may be made while the process ends.
class Registered {
 public:
  static Registered& instance() {
    static Registered* const table = new Registered;
    return *table;
  }

  void add(Row row) UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    UNISONO_CHECK(std::none_of(rows_.begin(), rows_.end(),
                               [&](const Row& other) { return other.name == row.name; }),
                  "there is already a backend '", row.name, "'");
    rows_.push_back(std::move(row));
  }
  std::vector<Row> rows() const UNISONO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return rows_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Row> rows_ UNISONO_GUARDED_BY(mutex_);
};

std::vector<Row> allRows() {
  std::vector<Row> rows;
  for (const BuiltIn& row : kBuiltIn) {
    rows.push_back({std::string(row.name), row.devices, row.make});
  }
  for (Row& row : Registered::instance().rows()) {
    rows.push_back(std::move(row));
  }
  return rows;
}

Row find(std::string_view name) {
  std::vector<std::string> names;
  for (Row& row : allRows()) {
    if (row.name == name) {
      return std::move(row);
    }
    names.push_back(row.name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view meant = nearest(name, views);
  throw UsageError({.reason = Reason::CONFIG,
                    .what = str("there is no backend '", name, "'; known are ", join(names, ", ")),
                    .hint = meant.empty() ? "register it by registerBackend()"
                                          : str("did you mean '", meant, "'")});
}

}  // namespace

void registerBackend(const std::string& name, DeviceSet devices, BackendFactory factory) {
  const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  UNISONO_CHECK(good, "'", name, "' cannot be the name of a backend: it is made of a-z, 0-9 and _");
  UNISONO_CHECK(factory != nullptr, "the backend '", name, "' has no factory");
  for (const BuiltIn& row : kBuiltIn) {
    UNISONO_CHECK(row.name != name, "there is already a backend '", name, "'");
  }
  Registered::instance().add({name, devices, std::move(factory)});
}

std::shared_ptr<Backend> makeBackend(std::string_view name, const BackendParams& params) {
  std::shared_ptr<Backend> backend = find(name).make(params);
  UNISONO_CHECK(backend != nullptr, "the factory of the backend '", name, "' has made none");
  return backend;
}

DeviceSet backendDevices(std::string_view name) {
  return find(name).devices;
}

std::vector<std::string> knownBackends() {
  std::vector<std::string> names;
  for (const Row& row : allRows()) {
    names.push_back(row.name);
  }
  return names;
}

}  // namespace unisono
