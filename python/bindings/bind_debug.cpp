// The debug level, as a number, and the rank of the log; unisono.distributed has torch's names for
// them.
#include "unisono/base/debug_level.hpp"

#include "base/log.hpp"
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
  module.def(
      "set_log_rank", [](int rank) { setLogRank(rank); }, nb::arg("rank"),
      "Puts the rank in front of every line of the log; -1 for none.");
}

}  // namespace unisono::python
