#include "reduction/instruction_set.hpp"

#include <hwy/highway.h>

#include "base/check.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

/// Makes Highway use the best of `targets`; of all there are if 0.
void choose(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// As long as nothing is chosen, the ones this processor has.
std::vector<std::int64_t> generated() {
  return hwy::SupportedAndGeneratedTargets();
}

}  // namespace

std::vector<std::string> instructionSets() {
  std::vector<std::string> names;
  for (const std::int64_t target : generated()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

void useInstructionSet(std::string_view name) {
  useBestInstructionSet();
  for (const std::int64_t target : generated()) {
    if (hwy::TargetName(target) == name) {
      choose(target);
      return;
    }
  }
  UNISONO_CHECK(false, "there are no kernels for '", name, "', or this processor lacks it");
}

void useBestInstructionSet() {
  choose(0);
}

}  // namespace unisono
