#include "linear/groups.hpp"

namespace unisono::linear {
namespace {

std::string nameOfKey(const std::string& key) {
  return "key " + key;
}

std::string nameOfFirst(const Event& event) {
  return isQueueOp(event.op) ? "queue " + event.keys.front() : nameOfKey(event.keys.front());
}

}  // namespace

Groups::Groups(const History& history) {
  for (const Event& event : history) {
    if (isQueueOp(event.op) || isAboutAll(event.op)) {
      continue;
    }
    const std::string first = find(nameOfFirst(event));
    for (const std::string& key : event.keys) {
      leader_[find(nameOfKey(key))] = first;
    }
  }
}

std::string Groups::find(std::string name) const {
  for (auto next = leader_.find(name); next != leader_.end() && next->second != name;
       next = leader_.find(name)) {
    name = next->second;
  }
  return name;
}

std::string Groups::of(const Event& event) const {
  return find(nameOfFirst(event));
}

std::string Groups::ofKey(const std::string& key) const {
  return find(nameOfKey(key));
}

}  // namespace unisono::linear
