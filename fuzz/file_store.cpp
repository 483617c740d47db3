// A FileStore on a file that somebody else wrote: it is used or refused, never a crash or a hang.
#include "unisono/store/file_store.hpp"

#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <string>
#include <unistd.h>

#include "unisono/base/error.hpp"

#include "base/str.hpp"
#include "fuzz/check.hpp"

namespace {

using namespace unisono;

void useEverything(FileStore& store) {
  const std::vector<std::string> keys = store.listKeys();
  for (const std::string& key : keys) {
    static_cast<void>(store.get(key));
  }
  static_cast<void>(store.check({"a"}));
  store.set("a", "b");
  FUZZ_EXPECT(store.getString("a") == "b");
  FUZZ_EXPECT(store.add("n of the fuzzer", 2) == 2);
  store.append("a", "c");
  FUZZ_EXPECT(store.getString("a") == "bc");
  FUZZ_EXPECT(store.deleteKey("a"));
  static_cast<void>(store.numKeys());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  ::setenv("UNISONO_LOG", "off", 1);
  const std::string path = str("/dev/shm/unisono-fuzz-", ::getpid());
  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  FUZZ_EXPECT(fd >= 0 && ::write(fd, bytes, size) == static_cast<ssize_t>(size));
  ::close(fd);
  try {
    FileStore store(path, 1, std::chrono::milliseconds(0));
    useEverything(store);
  } catch (const DistError& error) {
    FUZZ_EXPECT(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  ::unlink(path.c_str());
  return 0;
}
