// A client process of the store's stress test: random calls, every answer checked.
#pragma once

#include <cstdint>

#include "stress/board.hpp"

namespace unisono::stress {

struct ClientSettings {
  int number = 0;
  int clients = 1;
  std::uint16_t port = 0;
  std::uint64_t seed = 0;
  bool judge = false;    // whether every call is to end as promised, not only as tests have it
  Milliseconds slack{};  // how much later than tests have it a call may end
};

/// Works until the board says that the round is over, or the store is lost. What is wrong goes to
/// the board; returns 0 in either case.
int runClient(Board& board, const ClientSettings& settings);

}  // namespace unisono::stress
