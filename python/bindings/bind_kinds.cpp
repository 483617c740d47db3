// The kinds of stores: TCPStore, FileStore, HashStore, FakeStore, PrefixStore.
#include "unisono/store/fake_store.hpp"
#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "bindings/bind.hpp"
#include "bindings/convert.hpp"
#include "bindings/gil.hpp"
#include "bindings/store_handle.hpp"

namespace unisono::python {
namespace {

constexpr const char* kTcpSignature =
    "def __init__(self, host_name: str | bytes | bytearray, port: int, "
    "world_size: int | None = None, is_master: bool = False, "
    "timeout: datetime.timedelta | float = datetime.timedelta(seconds=300), "
    "wait_for_workers: bool = True, multi_tenant: bool = False, "
    "master_listen_fd: int | None = None, use_libuv: bool = True) -> None";

template <typename Kind>
const Kind& behind(const StoreHandle& handle) {
  return static_cast<const Kind&>(*handle.store());
}

/// Arguments of TCPStore as Python passes them.
struct TcpArguments {
  nb::handle port;
  nb::handle worldSize;
  nb::handle isMaster;
  nb::handle timeout;
  nb::handle waitForWorkers;
  nb::handle multiTenant;
  nb::handle listenFd;
  nb::handle useLibUv;
};

TCPStoreOptions tcpOptions(const TcpArguments& given) {
  TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(toWhole(given.port, "port", 0, 65535));
  if (!given.worldSize.is_none()) {
    const std::int64_t size = toWhole(given.worldSize, "world_size", INT32_MIN, INT32_MAX);
    if (size >= 0) {  // below: not known, as in torch
      options.numWorkers = static_cast<std::size_t>(size);
    }
  }
  if (PyBool_Check(given.isMaster.ptr()) == 0) {
    refuseType("is_master", "a bool", given.isMaster);
  }
  options.isServer = given.isMaster.is(Py_True);
  if (given.timeout.is_valid()) {
    options.timeout = toDuration(DurationArg{given.timeout}, "timeout");
  }
  options.waitWorkers = toFlag(given.waitForWorkers, "wait_for_workers");
  options.multiTenant = toFlag(given.multiTenant, "multi_tenant");
  if (!given.listenFd.is_none()) {
    options.masterListenFd =
        static_cast<int>(toWhole(given.listenFd, "master_listen_fd", INT32_MIN, INT32_MAX));
  }
  options.useLibUV = toFlag(given.useLibUv, "use_libuv");
  return options;
}

void bindTcp(nb::module_& module) {
  const nb::object usual = toTimedelta(Store::kDefaultTimeout);
  nb::class_<TCPStoreHandle, StoreHandle>(
      module, "TCPStore", "A store over TCP, in the wire format of PyTorch's TCPStore.")
      .def(
          "__init__",
          // The default is known by its address: it gives way to UNISONO_TIMEOUT.
          [usual = usual.ptr()](TCPStoreHandle* self, TextArg host, nb::handle port,
                                nb::handle worldSize, nb::handle isMaster, nb::handle timeout,
                                nb::handle waitForWorkers, nb::handle multiTenant,
                                nb::handle listenFd, nb::handle useLibUv) {
            const std::string name = Text(host, "host_name").string();
            const TCPStoreOptions options =
                tcpOptions({port, worldSize, isMaster, timeout.is(usual) ? nb::handle() : timeout,
                            waitForWorkers, multiTenant, listenFd, useLibUv});
            new (self) TCPStoreHandle(
                withoutLock([&] { return std::make_shared<TCPStore>(name, options); }));
          },
          nb::sig(kTcpSignature), nb::arg("host_name"), nb::arg("port"),
          nb::arg("world_size").none() = nb::none(), nb::arg("is_master") = false,
          nb::arg("timeout") = usual, nb::arg("wait_for_workers").none() = true,
          nb::arg("multi_tenant").none() = false, nb::arg("master_listen_fd").none() = nb::none(),
          nb::arg("use_libuv").none() = true, "Runs the server if `is_master`, and connects.")
      .def_prop_ro(
          "host",
          [](const TCPStoreHandle& self) { return toPython(behind<TCPStore>(self).host()); },
          "The name or address of the server's host.")
      .def_prop_ro(
          "port", [](const TCPStoreHandle& self) { return behind<TCPStore>(self).port(); },
          "The port of the server.")
      .def_prop_ro(
          "libuvBackend",
          [](const TCPStoreHandle& self) { return behind<TCPStore>(self).isLibUvBackend(); },
          "The use_libuv that was asked for; servers of both kinds behave alike.")
      .def("__repr__",
           [](const TCPStoreHandle& self) { return toPython(behind<TCPStore>(self).repr()); });
}

void bindFile(nb::module_& module) {
  nb::class_<FileStoreHandle, StoreHandle>(module, "FileStore",
                                           "A store in a file that all ranks can reach.")
      .def(
          "__init__",
          [](FileStoreHandle* self, TextArg fileName, nb::typed<nb::handle, int> worldSize) {
            const std::string path = Text(fileName, "file_name").string();
            const auto size =
                static_cast<int>(toWhole(worldSize, "world_size", INT32_MIN, INT32_MAX));
            new (self) FileStoreHandle(
                withoutLock([&] { return std::make_shared<FileStore>(path, size); }));
          },
          nb::arg("file_name"), nb::arg("world_size") = -1,
          "With `world_size`, the file goes with the last of that many objects.")
      .def_prop_ro(
          "path",
          [](const FileStoreHandle& self) { return toPython(behind<FileStore>(self).path()); },
          "The path of the file.");
}

void bindHash(nb::module_& module) {
  nb::class_<HashStoreHandle, StoreHandle>(
      module, "HashStore", "A store inside one process, for ranks that are threads.")
      .def("__init__", [](HashStoreHandle* self) {
        new (self) HashStoreHandle(std::make_shared<HashStore>());
      });
}

void bindFake(nb::module_& module) {
  nb::class_<FakeStoreHandle, StoreHandle>(
      module, "FakeStore", "A store that keeps nothing, for groups that are not real.")
      .def("__init__", [](FakeStoreHandle* self) {
        new (self) FakeStoreHandle(std::make_shared<FakeStore>());
      });
}

nb::object belowAllPrefixes(nb::object store) {
  while (nb::isinstance<PrefixStoreHandle>(store)) {
    store = nb::cast<const PrefixStoreHandle&>(store).underlying;
  }
  return store;
}

void bindPrefix(nb::module_& module) {
  nb::class_<PrefixStoreHandle, StoreHandle>(
      module, "PrefixStore", "A view of another store in which every key is under a prefix.")
      .def(
          "__init__",
          [](PrefixStoreHandle* self, TextArg prefix, nb::typed<nb::handle, StoreHandle> store) {
            const std::string name = Text(prefix, "prefix").string();
            if (store.is_none()) {
              throw nb::value_error("store argument cannot be None");
            }
            new (self) PrefixStoreHandle(std::make_shared<PrefixStore>(name, sharedStore(store)),
                                         nb::borrow(store));
          },
          nb::arg("prefix"), nb::arg("store").none(),
          nb::sig("def __init__(self, prefix: str | bytes | bytearray, store: Store) -> None"))
      .def_prop_ro(
          "underlying_store",
          [](const PrefixStoreHandle& self) -> nb::typed<nb::object, StoreHandle> {
            return self.underlying;
          },
          "The store that is wrapped, which may be a PrefixStore itself.")
      .def_prop_ro(
          "_underlying_non_prefix_store",
          [](const PrefixStoreHandle& self) -> nb::typed<nb::object, StoreHandle> {
            return belowAllPrefixes(self.underlying);
          },
          "The first store below that is not a PrefixStore.");
}

}  // namespace

void bindKinds(nb::module_& module) {
  bindTcp(module);
  bindFile(module);
  bindHash(module);
  bindFake(module);
  bindPrefix(module);
}

}  // namespace unisono::python
