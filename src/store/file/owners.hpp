// Owners: who is on a FileStore's file, and whether the file has outlived them all.
//
// Every object of ours leaves an "open" record, and a "close" record when it is destroyed.
// PyTorch's objects leave neither; they are known only as the part of "refcount/" that ours do
// not explain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/process.hpp"
#include "store/file/record_log.hpp"

namespace unisono {

/// What the log says about those who are or were on the file.
struct Occupancy {
  bool ours = false;       // made by us, or joined by one of ours
  bool alive = false;      // some process that opened it lives
  bool unseen = false;     // of some that opened it nothing is known
  std::int64_t stock = 0;  // objects of PyTorch that have not left, as far as one can count

  /// The file is left over: everybody who opened it is known to be gone.
  bool isStale() const noexcept { return ours && !alive && !unseen && stock == 0; }
};

/// Reads the occupancy out of `log`. An open record that we cannot read counts as
/// unseen.
Occupancy readOccupancy(const RecordLog& log, const ProcessMark& here);

/// The records of an object called `id` that comes and that goes.
Record openRecord(std::string_view id, const ProcessMark& here);
Record closeRecord(std::string_view id);

}  // namespace unisono
