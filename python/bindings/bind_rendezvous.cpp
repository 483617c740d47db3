// rendezvous() of C++, on which unisono.distributed.rendezvous stands.
#include "unisono/store/rendezvous.hpp"

#include "bindings/bind.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/store_handle.hpp"

namespace unisono::python {
namespace {

std::optional<int> known(nb::handle number, const char* name) {
  if (number.is_none()) {
    return std::nullopt;
  }
  return static_cast<int>(toWhole(number, name, INT32_MIN, INT32_MAX));
}

nb::tuple meet(const std::string& url, nb::handle rank, nb::handle worldSize, nb::handle timeout) {
  RendezvousOptions options{.rank = known(rank, "rank"),
                            .worldSize = known(worldSize, "world_size")};
  if (!timeout.is_none()) {
    options.timeout = toDuration(DurationArg{timeout}, "timeout");
  }
  const RendezvousResult result = withoutLock([&] { return rendezvous(url, options); });
  return nb::make_tuple(toPython(result.store), result.rank, result.worldSize);
}

}  // namespace

void bindRendezvous(nb::module_& module) {
  module.def(
      "meet",
      [](TextArg url, nb::handle rank, nb::handle worldSize, nb::handle timeout) {
        return meet(Text(url, "url").string(), rank, worldSize, timeout);
      },
      nb::arg("url"), nb::arg("rank").none(), nb::arg("world_size").none(),
      nb::arg("timeout").none(),
      nb::sig("def meet(url: str, rank: int | None, world_size: int | None, "
              "timeout: datetime.timedelta | float | None) -> tuple[Store, int, int]"),
      "Meets the other ranks at `url`; returns the store, the rank and the world size.");
}

}  // namespace unisono::python
