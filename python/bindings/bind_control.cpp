// The classes ControlCollectives and StoreCollectives: what ranks tell each other by a store.
#include <memory>

#include "unisono/control/store_collectives.hpp"

#include "bindings/bind.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/store_handle.hpp"

namespace unisono::python {
namespace {

/// What such an object is in Python. It may be the last to hold a store, so the interpreter's lock
/// is released when it goes.
class ControlHandle {
 public:
  explicit ControlHandle(std::unique_ptr<ControlCollectives> ranks) : ranks_(std::move(ranks)) {}
  ~ControlHandle() {
    withoutLock([this] { ranks_.reset(); });
  }
  ControlHandle(const ControlHandle&) = delete;
  ControlHandle& operator=(const ControlHandle&) = delete;

  ControlCollectives& ranks() const { return *ranks_; }

 private:
  std::unique_ptr<ControlCollectives> ranks_;
};

struct StoreControlHandle : ControlHandle {
  using ControlHandle::ControlHandle;
};

using Self = const ControlHandle&;
using Class = nb::class_<ControlHandle>;
using WholeArg = nb::typed<nb::handle, int>;
using BytesList = nb::typed<nb::list, nb::bytes>;

/// The default of every timeout. It is known by its address, and gives way to UNISONO_TIMEOUT.
class Usual {
 public:
  Usual() : shown_(toTimedelta(ControlCollectives::kDefaultTimeout)), address_(shown_.ptr()) {}

  const nb::object& shown() const { return shown_; }
  auto reader() const {
    return [usual = address_](DurationArg timeout) {
      return timeout.object.ptr() == usual
                 ? ControlCollectives::Timeout()
                 : ControlCollectives::Timeout(toDuration(timeout, "timeout"));
    };
  }

 private:
  nb::object shown_;
  PyObject* address_;
};

void bindMeetings(Class& type, const Usual& usual) {
  type.def(
          "barrier",
          [limit = usual.reader()](Self self, TextArg key, DurationArg timeout,
                                   nb::typed<nb::handle, bool> block) {
            const Text name(key, "key");
            const ControlCollectives::Timeout most = limit(timeout);
            const bool blocking = toFlag(block, "block");
            withoutLock([&] { self.ranks().barrier(name.view(), most, blocking); });
          },
          nb::arg("key"), nb::arg("timeout") = usual.shown(), nb::arg("block") = true,
          "Waits until all ranks have come; without `block` only tells them of this one.")
      .def(
          "all_sum",
          [limit = usual.reader()](Self self, TextArg key, WholeArg data, DurationArg timeout) {
            const Text name(key, "key");
            const std::int64_t value = toWhole(data, "data", INT64_MIN, INT64_MAX);
            const ControlCollectives::Timeout most = limit(timeout);
            return withoutLock([&] { return self.ranks().allSum(name.view(), value, most); });
          },
          nb::arg("key"), nb::arg("data"), nb::arg("timeout") = usual.shown(),
          "The sum of the numbers of all ranks.")
      .def(
          "all_gather",
          [limit = usual.reader()](Self self, TextArg key, TextArg data,
                                   DurationArg timeout) -> BytesList {
            const Text name(key, "key");
            const Text value(data, "data");
            const ControlCollectives::Timeout most = limit(timeout);
            return toPython(withoutLock(
                [&] { return self.ranks().allGather(name.view(), value.bytes(), most); }));
          },
          nb::arg("key"), nb::arg("data"), nb::arg("timeout") = usual.shown(),
          "What each rank gives, by rank, for all of them.");
}

void bindBroadcast(Class& type, const Usual& usual) {
  type.def(
          "broadcast_send",
          [limit = usual.reader()](Self self, TextArg key, TextArg data, DurationArg timeout) {
            const Text name(key, "key");
            const Text value(data, "data");
            const ControlCollectives::Timeout most = limit(timeout);
            withoutLock([&] { self.ranks().broadcastSend(name.view(), value.bytes(), most); });
          },
          nb::arg("key"), nb::arg("data"), nb::arg("timeout") = usual.shown(),
          "Sends `data` to all other ranks, which call broadcast_recv.")
      .def(
          "broadcast_recv",
          [limit = usual.reader()](Self self, TextArg key, DurationArg timeout) {
            const Text name(key, "key");
            const ControlCollectives::Timeout most = limit(timeout);
            return toPython(
                withoutLock([&] { return self.ranks().broadcastRecv(name.view(), most); }));
          },
          nb::arg("key"), nb::arg("timeout") = usual.shown(),
          "What the rank that called broadcast_send has sent.");
}

void bindGather(Class& type, const Usual& usual) {
  type.def(
          "gather_send",
          [limit = usual.reader()](Self self, TextArg key, TextArg data, DurationArg timeout) {
            const Text name(key, "key");
            const Text value(data, "data");
            const ControlCollectives::Timeout most = limit(timeout);
            withoutLock([&] { self.ranks().gatherSend(name.view(), value.bytes(), most); });
          },
          nb::arg("key"), nb::arg("data"), nb::arg("timeout") = usual.shown(),
          "Sends `data` to the rank that calls gather_recv.")
      .def(
          "gather_recv",
          [limit = usual.reader()](Self self, TextArg key, TextArg data,
                                   DurationArg timeout) -> BytesList {
            const Text name(key, "key");
            const Text value(data, "data");
            const ControlCollectives::Timeout most = limit(timeout);
            return toPython(withoutLock(
                [&] { return self.ranks().gatherRecv(name.view(), value.bytes(), most); }));
          },
          nb::arg("key"), nb::arg("data"), nb::arg("timeout") = usual.shown(),
          "What all other ranks have sent, by rank, and `data` at this one's place.");
}

void bindScatter(Class& type, const Usual& usual) {
  type.def(
          "scatter_send",
          [limit = usual.reader()](Self self, TextArg key, TextsArg data, DurationArg timeout) {
            const Text name(key, "key");
            const std::vector<Bytes> values = toValues(data, "data");
            const ControlCollectives::Timeout most = limit(timeout);
            return toPython(
                withoutLock([&] { return self.ranks().scatterSend(name.view(), values, most); }));
          },
          nb::arg("key"), nb::arg("data"), nb::arg("timeout") = usual.shown(),
          "Sends each rank its part of `data`, and returns this one's own.")
      .def(
          "scatter_recv",
          [limit = usual.reader()](Self self, TextArg key, DurationArg timeout) {
            const Text name(key, "key");
            const ControlCollectives::Timeout most = limit(timeout);
            return toPython(
                withoutLock([&] { return self.ranks().scatterRecv(name.view(), most); }));
          },
          nb::arg("key"), nb::arg("timeout") = usual.shown(),
          "This rank's part of what the one that called scatter_send has sent.");
}

}  // namespace

void bindControl(nb::module_& module) {
  const Usual usual;
  Class control(module, "ControlCollectives",
                "A few bytes from each rank, by calls that wait and say who has not come. Every "
                "call needs a key that was not used before, the same on all ranks.");
  bindMeetings(control, usual);
  bindBroadcast(control, usual);
  bindGather(control, usual);
  bindScatter(control, usual);
  nb::class_<StoreControlHandle, ControlHandle>(module, "StoreCollectives",
                                                "Control collectives by way of a store.")
      .def(
          "__init__",
          [](StoreControlHandle* self, nb::typed<nb::handle, StoreHandle> store, WholeArg rank,
             WholeArg worldSize) {
            const auto number = static_cast<int>(toWhole(rank, "rank", INT32_MIN, INT32_MAX));
            const auto size =
                static_cast<int>(toWhole(worldSize, "world_size", INT32_MIN, INT32_MAX));
            new (self) StoreControlHandle(
                std::make_unique<StoreCollectives>(sharedStore(store), number, size));
          },
          nb::arg("store"), nb::arg("rank"), nb::arg("world_size"));
}

}  // namespace unisono::python
