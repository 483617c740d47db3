#include "unisono/group/backend_config.hpp"

#include <algorithm>
#include <optional>

#include "unisono/backend/backend_table.hpp"
#include "unisono/base/error.hpp"

#include "base/str.hpp"

namespace unisono {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UsageError({.reason = Reason::CONFIG,
                    .what = str("'", text, "' says no backends: ", why),
                    .hint = "write \"unisono\", or \"cpu:unisono,cuda:nccl\""});
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return result;
}

std::optional<DeviceType> deviceNamed(std::string_view text) {
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    if (name(static_cast<DeviceType>(i)) == text) {
      return static_cast<DeviceType>(i);
    }
  }
  return std::nullopt;
}

BackendConfig forAllDevices(const std::string& backend) {
  BackendConfig config;
  const DeviceSet devices = backendDevices(backend);
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    if (devices.has(static_cast<DeviceType>(i))) {
      config.backends.emplace_back(static_cast<DeviceType>(i), backend);
    }
  }
  return config;
}

}  // namespace

BackendConfig BackendConfig::parse(std::string_view text) {
  const std::string all = lower(text);
  if (all.empty()) {
    refuse(text, "it is empty");
  }
  if (all.find_first_of(":,") == std::string::npos) {
    return forAllDevices(all);
  }
  BackendConfig config;
  std::string_view rest = all;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string_view part = rest.substr(0, comma);
    rest = more ? rest.substr(comma + 1) : std::string_view();
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos || colon + 1 == part.size() ||
        part.find(':', colon + 1) != std::string_view::npos) {
      refuse(text, str("'", part, "' is not a device, a colon and a backend"));
    }
    const std::optional<DeviceType> device = deviceNamed(part.substr(0, colon));
    if (!device) {
      refuse(text, str("'", part.substr(0, colon), "' is no device; devices are cpu, cuda, xpu"));
    }
    const bool twice = std::any_of(config.backends.begin(), config.backends.end(),
                                   [&](const auto& entry) { return entry.first == *device; });
    if (twice) {
      refuse(text, str("it has two backends for ", name(*device)));
    }
    config.backends.emplace_back(*device, part.substr(colon + 1));
  }
  return config;
}

std::string BackendConfig::describe() const {
  std::string text;
  for (const auto& [device, backend] : backends) {
    text += str(text.empty() ? "" : ",", name(device), ":", backend);
  }
  return text;
}

}  // namespace unisono
