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

}  // namespace

std::vector<std::pair<std::string, std::string>> environment() {
  return {{"unisono", UNISONO_VERSION_STRING},
          {"date", date()},
          {"processor", processor()},
          {"cores", cores()},
          {"kernel", kernel()},
          {"load_before", firstLine("/proc/loadavg")}};
}

}  // namespace unisono::bench
