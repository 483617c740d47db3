// Groups: keys that calls have in common. What happens to one group says nothing of another.
#pragma once

#include <map>
#include <string>

#include "linear/history.hpp"

namespace unisono::linear {

class Groups {
 public:
  /// Calls about all keys at once (count, list) make no groups.
  explicit Groups(const History& history);

  /// The name of the group of what `event` calls first.
  std::string of(const Event& event) const;
  std::string ofKey(const std::string& key) const;

 private:
  std::string find(std::string name) const;

  std::map<std::string, std::string> leader_;
};

}  // namespace unisono::linear
