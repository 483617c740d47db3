#include "unisono/store/fake_store.hpp"

#include "store/common.hpp"

namespace unisono {

void FakeStore::set(std::string_view, BytesView) {}

Bytes FakeStore::get(std::string_view) {
  return {};
}

std::int64_t FakeStore::add(std::string_view, std::int64_t delta) {
  return delta;
}

bool FakeStore::deleteKey(std::string_view) {
  return true;
}

std::int64_t FakeStore::deletePrefix(std::string_view) {
  return 0;
}

bool FakeStore::check(std::span<const std::string>) {
  return true;
}

void FakeStore::wait(std::span<const std::string>, std::chrono::milliseconds timeout) {
  checkedTimeout(timeout);
}

std::int64_t FakeStore::numKeys() {
  return 0;
}

std::shared_ptr<Store> FakeStore::clone() {
  auto twin = std::make_shared<FakeStore>();
  twin->setTimeout(timeout());
  return twin;
}

}  // namespace unisono
