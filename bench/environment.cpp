#include "bench/environment.hpp"

#include <array>
#include <ctime>
#include <fstream>
#include <sched.h>
#include <sys/utsname.h>

#include "unisono/version.hpp"

#include "base/str.hpp"

namespace unisono::bench {
namespace {

std::string firstLine(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) {
      return line.substr(std::min(line.size(), line.find(": ") + 2));
    }
  }
  return "unknown";
}

std::string cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? str(CPU_COUNT(&set)) : "unknown";
}

std::string kernel() {
  utsname name{};
  return ::uname(&name) == 0 ? str(name.sysname, " ", name.release) : "unknown";
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return text.data();
}

/// Of a line such as "always [madvise] never".
std::string chosen(const std::string& line) {
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  return begin == std::string::npos || end < begin ? "unknown"
                                                   : line.substr(begin + 1, end - begin - 1);
}

std::string hugePages() {
  return str(chosen(firstLine("/sys/kernel/mm/transparent_hugepage/enabled")),
             ", in shared memory ",
             chosen(firstLine("/sys/kernel/mm/transparent_hugepage/shmem_enabled")));
}

}  // namespace

Facts environment() {
  return {{"unisono", UNISONO_VERSION_STRING},
          {"date", date()},
          {"processor", processor()},
          {"cores", cores()},
          {"kernel", kernel()},
          {"huge_pages", hugePages()},
          {"load_before", firstLine("/proc/loadavg")}};
}

ProcessorTime processorTime() {
  constexpr int kStolen = 7;  // user, nice, system, idle, iowait, irq, softirq, steal
  std::ifstream in("/proc/stat");
  std::string name;
  in >> name;
  ProcessorTime time;
  double value = 0;
  for (int i = 0; i <= kStolen && in >> value; ++i) {
    time.all += value;
    time.stolen += i == kStolen ? value : 0;
  }
  return time;
}

double stolenPercent(const ProcessorTime& before, const ProcessorTime& after) {
  const double all = after.all - before.all;
  return all > 0 ? 100 * (after.stolen - before.stolen) / all : 0;
}

}  // namespace unisono::bench
