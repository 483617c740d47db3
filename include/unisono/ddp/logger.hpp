// Logger: notes what a Reducer does, and how long the parts of a step take.
//
//   auto logger = std::make_shared<Logger>(reducer);
//   reducer.setLogger(logger);
//   logger->setConstructionDataAndLog({.moduleName = "ResNet"});
//   for (…) {
//     logger->setRuntimeStatsAndLog();    // of the step before
//     reducer.prepareForForward();
//     …
//   }
//   logger->loggingData().intsMap.at("avg_backward_comm_time");   // nanoseconds
//
// The first ten steps are noted, and then one in so many: see
// Reducer::setRuntimeLoggingSampleRate(). DataParallel has a Logger and makes these calls itself.
//
// Thread safety: every method may be called from any thread; setRuntimeStatsAndLog() between steps.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/api.hpp"
#include "unisono/ddp/logging_data.hpp"

namespace unisono {

class Reducer;

/// What a Reducer does not know of its training.
struct ConstructionData {
  std::string moduleName = {};
  std::vector<int> deviceIds = {};
  int outputDevice = -1;  // none
  bool broadcastBuffers = false;
  bool hasSyncBn = false;
  bool staticGraph = false;  // or as the Reducer was told
};

class UNISONO_API Logger {
 public:
  /// The reducer must outlive it.
  explicit Logger(Reducer& reducer);
  /// Reports that the graph could have been static, unless it is known that it could not.
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  void setConstructionDataAndLog(const ConstructionData& data);
  /// Notes the last step, if it is one of those that are.
  void setRuntimeStatsAndLog();
  void setErrorAndLog(std::string_view error);
  void setCommHook(std::string_view name);
  void setUnevenInputJoin();
  void setStaticGraph();
  /// Reports whether the graph can be static; the first call counts.
  void logIfGraphStatic(bool canBeStatic);

  DDPLoggingData loggingData() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace unisono
