// Device: where the memory of a tensor is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "unisono/base/api.hpp"

namespace unisono {

enum class DeviceType : std::int16_t { CPU, CUDA, XPU, META };
inline constexpr int kDeviceTypeCount = 4;

/// "cpu", "cuda", …
UNISONO_API std::string_view name(DeviceType type) noexcept;

// Without gaps, and aligned as a whole: it is then written in one piece, so that it can be read in
// one piece at once. Tensors are moved on the way of every collective.
struct alignas(4) Device {
  DeviceType type = DeviceType::CPU;
  std::int16_t index = -1;  // -1: the current one

  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:1".
UNISONO_API std::string describe(Device device);

}  // namespace unisono
