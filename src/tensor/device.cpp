#include "unisono/tensor/device.hpp"

#include <array>

#include "base/str.hpp"

namespace unisono {

std::string_view name(DeviceType type) noexcept {
  static constexpr std::array<std::string_view, kDeviceTypeCount> kNames = {"cpu", "cuda", "xpu",
                                                                            "meta"};
  return kNames.at(static_cast<std::uint8_t>(type));
}

std::string describe(Device device) {
  return device.index < 0 ? std::string(name(device.type))
                          : str(name(device.type), ":", device.index);
}

}  // namespace unisono
