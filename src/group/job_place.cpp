#include "group/job_place.hpp"

#include <array>
#include <charconv>
#include <fstream>
#include <string_view>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

// Read by name below, like those of the launchers.
UNISONO_KNOB(std::string, kRank, "UNISONO_RANK", "",
             "the rank of this process, for init(); goes before what a launcher says");
UNISONO_KNOB(std::string, kSize, "UNISONO_SIZE", "",
             "how many ranks there are, for init(); goes before what a launcher says");

/// The variables by which a launcher speaks.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* onHost;                 // how many of the job are on this host; null: not told
  const char* allOnHost;              // and what that is when all are; null: as many as the size
  std::array<const char*, 3> jobIds;  // which together name the job
};

constexpr std::array<const char*, 3> kNoIds = {nullptr, nullptr, nullptr};

// Asked in this order. Slurm's are those of a step: a batch script has a SLURM_PROCID too, but is
// one process, however many tasks the job has.
constexpr Launcher kLaunchers[] = {
    {"UNISONO_RANK", kRank.name, kSize.name, nullptr, nullptr, kNoIds},
    {"torchrun", "RANK", "WORLD_SIZE", nullptr, nullptr, kNoIds},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     nullptr,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"}},
    {"PMI",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALNRANKS",
     nullptr,
     {"SLURM_JOB_ID", "SLURM_STEP_ID", nullptr}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_STEP_NUM_NODES",
     "1",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", nullptr}},
};

[[noreturn]] void refuse(std::string what) {
  throw UsageError({.reason = Reason::CONFIG,
                    .what = std::move(what),
                    .hint = "set both to what they are, or neither; or give init() rank and size"});
}

std::string_view textOf(const Variables& variable, const char* name) {
  const char* const text = name == nullptr ? nullptr : variable(name);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

int wholeNumber(const Variables& variable, const char* name) {
  const std::string_view text = textOf(variable, name);
  int number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) {
    refuse(str(name, " is '", text, "', which is not a whole number"));
  }
  return number;
}

/// MPICH's launcher starts the ranks of a host by one process, and gives its jobs no name.
std::string jobOfProxy() {
  pid_t pid = ::getppid();
  for (int level = 0; level < 16 && pid > 1; ++level) {
    std::ifstream file(str("/proc/", pid, "/stat"));
    std::string stat;
    std::getline(file, stat);
    const std::size_t open = stat.find('(');
    const std::size_t close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 > stat.size()) {
      return "";
    }
    if (stat.substr(open, close - open).find("pmi_proxy") != std::string::npos) {
      const std::optional<ProcessState> proxy = lookAt(pid);
      return proxy ? str("proxy ", pid, " ", proxy->startTicks) : "";
    }
    pid_t parent = 0;  // "pid (name) state parent …"
    std::from_chars(stat.data() + close + 4, stat.data() + stat.size(), parent);
    pid = parent;
  }
  return "";
}

std::string jobOf(const Launcher& launcher, const Variables& variable) {
  const char* const all = launcher.allOnHost == nullptr ? launcher.size : nullptr;
  const std::string_view wanted =
      all == nullptr ? std::string_view(launcher.allOnHost == nullptr ? "" : launcher.allOnHost)
                     : textOf(variable, all);
  if (launcher.onHost == nullptr || textOf(variable, launcher.onHost) != wanted) {
    return "";
  }
  std::string ids;
  for (const char* const name : launcher.jobIds) {
    if (const std::string_view text = textOf(variable, name); !text.empty()) {
      ids += str(" ", text);
    }
  }
  if (ids.empty() && std::string_view(launcher.name) == "PMI") {
    ids = jobOfProxy();
  }
  return ids.empty() ? "" : str(launcher.name, " ", ids);
}

JobPlace placeBy(const Launcher& launcher, const Variables& variable) {
  JobPlace place{.rank = wholeNumber(variable, launcher.rank),
                 .size = wholeNumber(variable, launcher.size),
                 .source = launcher.name,
                 .job = jobOf(launcher, variable)};
  if (place.rank < 0 || place.rank >= place.size) {
    refuse(str(launcher.rank, " is ", place.rank, " and ", launcher.size, " is ", place.size,
               ", but ranks go from 0 to one less than their number"));
  }
  return place;
}

/// One launcher may run inside another, which then has started this process together with others;
/// anything else is most likely a variable that was left over.
void nameContradiction(const JobPlace& taken, const JobPlace& other) {
  const bool nested =
      taken.size % other.size == 0 && taken.rank / (taken.size / other.size) == other.rank;
  if (!nested) {
    UNISONO_LOG(WARN, "group", taken.source, " says that this is rank ", taken.rank, " of ",
                taken.size, ", ", other.source, " that it is rank ", other.rank, " of ", other.size,
                "; the first is taken");
  }
}

}  // namespace

std::optional<JobPlace> findJobPlace(const Variables& variable) {
  std::optional<JobPlace> found;
  for (const Launcher& launcher : kLaunchers) {
    const bool hasRank = !textOf(variable, launcher.rank).empty();
    const bool hasSize = !textOf(variable, launcher.size).empty();
    if (hasRank && hasSize) {
      const JobPlace place = placeBy(launcher, variable);
      if (found) {
        nameContradiction(*found, place);
      } else {
        found = place;
      }
    } else if (!found && hasRank && std::string_view(launcher.name) != "Slurm") {
      refuse(str(launcher.rank, " is set, but ", launcher.size, " is not"));
    }
  }
  if (!found && !textOf(variable, "PMIX_RANK").empty()) {
    refuse(str("PMIX_RANK is set, but PMIx does not say in variables how many ranks there are, ",
               "and neither UNISONO_SIZE nor another launcher does"));
  }
  return found;
}

}  // namespace unisono
