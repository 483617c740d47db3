// Uses the installed library as a stranger would: its groups, its stores, its errors, its
// interface.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unisono/unisono.hpp>
#include <unistd.h>
#include <vector>

namespace {

/// A store of the stranger's own: deriving from the interface works across the library's border.
class EmptyStore final : public unisono::Store {
 public:
  using Store::check;
  using Store::set;
  using Store::wait;
  void set(std::string_view, unisono::BytesView) override {}
  unisono::Bytes get(std::string_view) override { return {}; }
  std::int64_t add(std::string_view, std::int64_t delta) override { return delta; }
  bool deleteKey(std::string_view) override { return false; }
  bool check(std::span<const std::string>) override { return false; }
  void wait(std::span<const std::string>, std::chrono::milliseconds) override {}
  std::int64_t numKeys() override { return 0; }
  std::shared_ptr<unisono::Store> clone() override { return std::make_shared<EmptyStore>(); }
};

bool expect(bool condition, const char* what) {
  std::printf("%s: %s\n", condition ? "good" : "bad", what);
  return condition;
}

bool errorsCrossTheBorder() {
  try {
    EmptyStore().queuePush("queue", "value");  // the interface refuses what a store does not offer
  } catch (const unisono::NotSupportedError& error) {
    return error.reason() == unisono::Reason::USAGE;
  }
  return false;
}

bool waitsEndInTime() {
  const auto store = std::make_shared<unisono::HashStore>();
  try {
    store->wait({"nobody sets this"}, std::chrono::milliseconds(10));
  } catch (const unisono::DistStoreError& error) {
    return error.reason() == unisono::Reason::TIMEOUT;
  }
  return false;
}

bool keepsValues(unisono::Store& store) {
  store.set("key", "value");
  return store.getString("key") == "value" && store.add("count", 40) + 2 == 42 &&
         store.check({"key", "count"}) && !store.check({"other"});
}

constexpr int kRanks = 2;

/// What one of two ranks sees: templates of the headers, tensors and work cross the border.
bool worksInAGroup(int rank, const std::string& path) {
  try {
    const auto store = std::make_shared<unisono::FileStore>(path, kRanks);
    unisono::Group world = unisono::init(
        {.store = store, .rank = rank, .size = kRanks, .timeout = std::chrono::seconds(60)});
    std::vector<double> sum = {1.0, static_cast<double>(rank)};
    world.allReduce(sum);
    const std::array<std::int64_t, 1> mine = {10 + rank};
    std::array<std::int64_t, kRanks> all = {};
    world.allGather(mine, all, {.async = true})->wait();
    unisono::destroyProcessGroup(world);
    return sum == std::vector<double>{2.0, 1.0} && all == std::array<std::int64_t, 2>{10, 11};
  } catch (const unisono::DistError& error) {
    std::printf("rank %d: %s\n", rank, error.what());
    return false;
  }
}

/// Two processes; to be called before this one has threads.
bool groupsWork() {
  std::string folder = "/tmp/unisono-outside-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    return false;
  }
  const std::string path = folder + "/store";
  const pid_t other = ::fork();
  if (other == 0) {
    const bool good = worksInAGroup(1, path);
    std::fflush(stdout);
    ::_exit(good ? 0 : 1);
  }
  const bool good = other > 0 && worksInAGroup(0, path);
  int status = -1;
  ::waitpid(other, &status, 0);
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
  return good && status == 0;
}

}  // namespace

int main() {
  std::printf("unisono %s\n", UNISONO_VERSION_STRING);
  std::fflush(stdout);  // so that no child says it again
  const bool group = groupsWork();
  const auto inProcess = std::make_shared<unisono::HashStore>();
  unisono::TCPStore overTcp("127.0.0.1", {.port = 0, .isServer = true});
  const bool good = expect(group, "two ranks work in a group") &&
                    expect(keepsValues(*inProcess), "HashStore keeps values") &&
                    expect(keepsValues(overTcp), "TCPStore keeps values") &&
                    expect(waitsEndInTime(), "waits end in time") &&
                    expect(errorsCrossTheBorder(), "errors cross the border");
  std::puts(good ? "outside: good" : "outside: bad");
  return good ? 0 : 1;
}
