// What is noted of a training: unisono/distributed/_logger.py has the names that users know.
#include <memory>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/training.hpp"

namespace unisono::python {
namespace {

void bindFacts(nb::class_<Logging>& type) {
  type.def(
          "set_construction_data",
          [](const Logging& self, std::string module, std::vector<int> devices, int output,
             bool broadcastBuffers, bool hasSyncBn, bool staticGraph) {
            const ConstructionData data{.moduleName = std::move(module),
                                        .deviceIds = std::move(devices),
                                        .outputDevice = output,
                                        .broadcastBuffers = broadcastBuffers,
                                        .hasSyncBn = hasSyncBn,
                                        .staticGraph = staticGraph};
            self.use([&](HostedLogger& held) { held.logger.setConstructionDataAndLog(data); });
          },
          nb::arg("module_name"), nb::arg("device_ids"), nb::arg("output_device"),
          nb::arg("broadcast_buffers"), nb::arg("has_sync_bn"), nb::arg("static_graph"),
          "What the Reducer does not know.")
      .def(
          "set_error",
          [](const Logging& self, const std::string& error) {
            self.use([&](HostedLogger& held) { held.logger.setErrorAndLog(error); });
          },
          nb::arg("error"), "Something went wrong.")
      .def(
          "set_comm_hook",
          [](const Logging& self, const std::string& name) {
            self.use([&](HostedLogger& held) { held.logger.setCommHook(name); });
          },
          nb::arg("name"), "What reduces buckets.")
      .def(
          "set_uneven_input_join",
          [](const Logging& self) {
            self.use([](HostedLogger& held) { held.logger.setUnevenInputJoin(); });
          },
          "Some ranks may have more inputs than others.")
      .def(
          "set_static_graph",
          [](const Logging& self) {
            self.use([](HostedLogger& held) { held.logger.setStaticGraph(); });
          },
          "All steps use the same parameters.");
}

}  // namespace

void bindLogger(nb::module_& module) {
  nb::class_<Logging> type(module, "Logger", "Notes what a Reducer does.");
  type.def(
          "__init__",
          [](Logging* self, const Reducing& reducer) {
            new (self) Logging(std::make_shared<HostedLogger>(reducer.get()));
          },
          nb::arg("reducer"))
      .def(
          "attach",
          [](const Logging& self) {
            const std::shared_ptr<HostedLogger> kept = self.get();
            const std::shared_ptr<Logger> logger(kept, &kept->logger);
            self.use([&](HostedLogger& held) { held.of->reducer.setLogger(logger); });
          },
          "The Reducer tells it of errors, as long as it is there.")
      .def(
          "set_runtime_stats",
          [](const Logging& self) {
            self.use([](HostedLogger& held) { held.logger.setRuntimeStatsAndLog(); });
          },
          "Notes the last step, if it is one of those that are.")
      .def(
          "data",
          [](const Logging& self) {
            return asTuple(self.use([](HostedLogger& held) { return held.logger.loggingData(); }));
          },
          nb::sig("def data(self) -> tuple[dict[str, str], dict[str, int]]"),
          "All that is known: texts, and numbers.")
      .def(
          "leave", [](Logging& self) { self.leave(); }, "Lets go of the group.");
  bindFacts(type);
}

}  // namespace unisono::python
