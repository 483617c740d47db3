// Uses the installed library as a stranger would: its stores, its errors, its interface.
#include <cstdio>
#include <unisono/unisono.hpp>

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

}  // namespace

int main() {
  std::printf("unisono %s\n", UNISONO_VERSION_STRING);
  const auto inProcess = std::make_shared<unisono::HashStore>();
  unisono::TCPStore overTcp("127.0.0.1", {.port = 0, .isServer = true});
  const bool good = expect(keepsValues(*inProcess), "HashStore keeps values") &&
                    expect(keepsValues(overTcp), "TCPStore keeps values") &&
                    expect(waitsEndInTime(), "waits end in time") &&
                    expect(errorsCrossTheBorder(), "errors cross the border");
  std::puts(good ? "outside: good" : "outside: bad");
  return good ? 0 : 1;
}
