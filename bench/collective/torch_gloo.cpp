#include "bench/collective/torch_gloo.hpp"

#include <fstream>
#include <string>

#include "base/str.hpp"

namespace unisono::bench {
namespace {

constexpr Milliseconds kTimeToLook(20'000);
constexpr Milliseconds kTimeToImport(120'000);  // of all ranks at once, from a cold disk

/// Without importing it, which takes seconds.
bool hasTorch(const std::string& python) {
  constexpr const char* kLook =
      "from importlib.util import find_spec; print(find_spec('torch') is not None)";
  return Process(python, {python, "-c", kLook}).readLine(kTimeToLook) == "True";
}

}  // namespace

void enterTorchGloo(const Stage& stage, std::vector<Entrant>& entrants,
                    std::vector<Absentee>& absent) {
  const std::string wanted = stage.python.empty() ? nearestPython() : stage.python;
  const std::string python = findProgram(wanted);
  if (python.empty()) {
    absent.push_back(
        {kTorchGloo, str("there is no ", wanted, "; name one that has torch with --python")});
    return;
  }
  if (!hasTorch(python)) {
    absent.push_back({kTorchGloo, str(python, " has no torch; name one that has with --python")});
    return;
  }
  const std::string script = str(stage.scratch, "/torch_gloo.py");
  std::ofstream(script) << kTorchGlooScript;
  Entrant entrant{.name = kTorchGloo, .commands = {}, .timeToComeUp = kTimeToImport};
  for (int rank = 0; rank < stage.ranks; ++rank) {
    // By loopback, as the other contestants that have nothing but TCP.
    entrant.commands.push_back({str("RANK=", rank), str("WORLD_SIZE=", stage.ranks),
                                str("UNISONO_COMPARE_FOLDER=", stage.scratch),
                                "GLOO_SOCKET_IFNAME=lo", python, script});
  }
  entrants.push_back(std::move(entrant));
}

}  // namespace unisono::bench
