// BackendConfig: which backend a group has for which kind of device.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/tensor/device.hpp"

namespace unisono {

struct BackendConfig {
  /// In the order in which they were given; each kind of device once.
  std::vector<std::pair<DeviceType, std::string>> backends = {};

  /// Reads "cpu:unisono,cuda:nccl", or one name, which is then for every kind of device that the
  /// backend is for. Names are in lower or upper case. Throws UsageError (CONFIG) for anything
  /// else.
  UNISONO_API static BackendConfig parse(std::string_view text);

  /// "cpu:unisono,cuda:nccl"
  UNISONO_API std::string describe() const;
};

}  // namespace unisono
