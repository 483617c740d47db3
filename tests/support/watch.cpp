#include "support/watch.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include "base/wait.hpp"

namespace unisono::test {
namespace {

std::int64_t entriesOf(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

}  // namespace

std::int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             systemClock().now().time_since_epoch())
      .count();
}

bool eventually(const std::function<bool()>& ready, Milliseconds patience) {
  TimerWaitable timer{Milliseconds(1)};
  return waitUntil(ready, {.deadline = Deadline::after(patience), .subject = {}}, timer);
}

bool isLocalSocket(const std::string& name) {
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with("@" + name)) {
      return true;
    }
  }
  return false;
}

Holdings holdings() {
  Holdings held{.descriptors = entriesOf("/proc/self/fd"), .threads = entriesOf("/proc/self/task")};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    held.mappings += line.find("memfd:unisono") != std::string::npos ? 1 : 0;
  }
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  held.residentKib = pages * ::sysconf(_SC_PAGESIZE) / 1024;
  return held;
}

}  // namespace unisono::test
