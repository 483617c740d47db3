// Every request of PyTorch's protocol and its reply, byte for byte.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "store/core_harness.hpp"

namespace unisono::tcp::test {

/// What a client sends, and what it is answered, after `before` has been sent by another one.
struct WireRow {
  std::string_view name;
  std::string before;
  std::string_view request;
  std::string_view reply;

  friend void PrintTo(const WireRow& row, std::ostream* out) { *out << row.name; }
};

inline std::vector<WireRow> wireRows() {
  const std::string foo = setOf("/foo", "bar").bytes();
  const std::string ab = setOf("/a", "1").bytes() + setOf("/b", "22").bytes();
  const std::string queue = pushOf("/q", "v").bytes();
  return {
      {"Ping", "", "0d 34 12 00 00", "34 12 00 00"},
      {"Set", "", "01 04 00 00 00 00 00 00 00 2f 66 6f 6f 03 00 00 00 00 00 00 00 62 61 72", ""},
      {"CompareSetEqual", foo,
       "02 04 00 00 00 00 00 00 00 2f 66 6f 6f 03 00 00 00 00 00 00 00 62 61 72"
       " 03 00 00 00 00 00 00 00 62 61 7a",
       "03 00 00 00 00 00 00 00 62 61 7a"},
      {"CompareSetMissing", "",
       "02 04 00 00 00 00 00 00 00 2f 66 6f 6f 00 00 00 00 00 00 00 00"
       " 03 00 00 00 00 00 00 00 62 61 72",
       "03 00 00 00 00 00 00 00 62 61 72"},
      {"Get", foo, "03 04 00 00 00 00 00 00 00 2f 66 6f 6f", "03 00 00 00 00 00 00 00 62 61 72"},
      {"AddFive", "", "04 02 00 00 00 00 00 00 00 2f 6e 05 00 00 00 00 00 00 00",
       "05 00 00 00 00 00 00 00"},
      {"AddMinusOne", setOf("/n", "5").bytes(),
       "04 02 00 00 00 00 00 00 00 2f 6e ff ff ff ff ff ff ff ff", "04 00 00 00 00 00 00 00"},
      {"AddWorker", "", "04 05 00 00 00 00 00 00 00 69 6e 69 74 2f 01 00 00 00 00 00 00 00",
       "01 00 00 00 00 00 00 00"},
      {"CheckPresent", foo, "05 01 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 2f 66 6f 6f", "00"},
      {"CheckMissing", "", "05 01 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 2f 66 6f 6f", "01"},
      {"Wait", ab,
       "06 02 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 2f 61 02 00 00 00 00 00 00 00 2f 62",
       "00"},
      {"NumKeys", ab + foo, "07", "03 00 00 00 00 00 00 00"},
      {"DeleteKey", foo, "08 04 00 00 00 00 00 00 00 2f 66 6f 6f", "01 00 00 00 00 00 00 00"},
      {"DeleteMissingKey", "", "08 04 00 00 00 00 00 00 00 2f 66 6f 6f", "00 00 00 00 00 00 00 00"},
      {"Append", foo, "09 04 00 00 00 00 00 00 00 2f 66 6f 6f 01 00 00 00 00 00 00 00 21", ""},
      {"MultiGet", ab,
       "0a 02 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 2f 61 02 00 00 00 00 00 00 00 2f 62",
       "01 00 00 00 00 00 00 00 31 02 00 00 00 00 00 00 00 32 32"},
      {"MultiSet", "",
       "0b 02 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 2f 61 01 00 00 00 00 00 00 00 31"
       " 02 00 00 00 00 00 00 00 2f 62 02 00 00 00 00 00 00 00 32 32",
       ""},
      {"CancelWait", "", "0c", "01"},
      {"QueuePush", "", "0e 02 00 00 00 00 00 00 00 2f 71 01 00 00 00 00 00 00 00 76", ""},
      {"QueuePop", queue, "0f 02 00 00 00 00 00 00 00 2f 71",
       "01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 76"},
      {"QueuePopEmpty", "", "0f 02 00 00 00 00 00 00 00 2f 71", "00 00 00 00 00 00 00 00"},
      {"QueueLen", queue + queue, "10 02 00 00 00 00 00 00 00 2f 71", "02 00 00 00 00 00 00 00"},
      {"ListKeys", foo, "11", "01 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 2f 66 6f 6f"},
      {"Barrier", req(Query::BARRIER).blob("/b").i64(2).bytes(),
       "12 02 00 00 00 00 00 00 00 2f 62 02 00 00 00 00 00 00 00", "00"},
  };
}

}  // namespace unisono::tcp::test
