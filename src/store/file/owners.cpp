#include "store/file/owners.hpp"

#include <algorithm>

#include "base/str.hpp"
#include "store/decimal.hpp"

namespace unisono {

Occupancy readOccupancy(const RecordLog& log, const ProcessMark& here) {
  Occupancy occupancy;
  std::int64_t present = 0;
  for (const Record& mark : log.marks()) {
    occupancy.ours = true;
    if (mark.key == kOpenKey) {
      ++present;
      const std::string_view text = mark.value;
      const std::size_t idEnd = text.find(' ');
      const auto process =
          idEnd == std::string_view::npos ? std::nullopt : decodeMark(text.substr(idEnd + 1));
      const Life life = process ? lifeOf(*process, here) : Life::UNSEEN;
      occupancy.alive = occupancy.alive || life == Life::ALIVE;
      occupancy.unseen = occupancy.unseen || life == Life::UNSEEN;
    } else if (mark.key == kCloseKey) {
      --present;
    }
  }
  const Result<std::int64_t> stock = addDecimal(textOf(log.find(kRefcountKey)), -present);
  // A count that is no number was not written by us: take it for somebody.
  occupancy.stock = stock.isOk() ? std::max<std::int64_t>(stock.value(), 0) : 1;
  return occupancy;
}

Record openRecord(std::string_view id, const ProcessMark& here) {
  return {std::string(kOpenKey), str(id, " ", encodeMark(here))};
}

Record closeRecord(std::string_view id) {
  return {std::string(kCloseKey), std::string(id)};
}

}  // namespace unisono
