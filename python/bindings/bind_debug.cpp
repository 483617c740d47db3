// The debug level, as a number; unisono.distributed makes an enumeration of it.
#include "unisono/base/debug_level.hpp"

#include "bindings/bind.hpp"
#include "bindings/convert.hpp"

namespace unisono::python {

void bindDebug(nb::module_& module) {
  module.def(
      "debug_level", [] { return static_cast<int>(debugLevel()); },
      "The debug level: 0 is OFF, 1 INFO, 2 DETAIL.");
  module.def(
      "set_debug_level",
      [](nb::typed<nb::handle, int> level) {
        const std::int64_t number =
            toWhole(level, "level", 0, static_cast<int>(DebugLevel::DETAIL));
        setDebugLevel(static_cast<DebugLevel>(number));
      },
      nb::arg("level"));
  module.def("set_debug_level_from_env", &setDebugLevelFromEnvironment);
}

}  // namespace unisono::python
