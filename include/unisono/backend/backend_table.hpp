// Backends by name: those that come with unisono, and those that programs register.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/backend/backend.hpp"
#include "unisono/base/api.hpp"

namespace unisono {

using BackendFactory = std::function<std::shared_ptr<Backend>(const BackendParams&)>;

/// Makes `name` known, for devices of the given kinds. Throws UsageError when the name is taken,
/// empty, or has other characters than lower-case letters, digits and "_".
UNISONO_API void registerBackend(const std::string& name, DeviceSet devices,
                                 BackendFactory factory);

/// A new backend. Throws UsageError with the known names when there is none of that name.
UNISONO_API std::shared_ptr<Backend> makeBackend(std::string_view name,
                                                 const BackendParams& params);

/// The kinds of devices that a backend is for; throws as makeBackend().
UNISONO_API DeviceSet backendDevices(std::string_view name);

/// All names, the built-in ones first.
UNISONO_API std::vector<std::string> knownBackends();

}  // namespace unisono
