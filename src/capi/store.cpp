// Stores of unisono.h.
#include <cstdlib>
#include <string_view>

#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/tcp_store.hpp"

#include "capi/error.hpp"
#include "capi/handles.hpp"

namespace unisono::capi {
namespace {

std::string_view textOf(const char* text, const char* name) {
  return &given(text, name);
}

BytesView bytesOf(const void* data, std::size_t size) {
  UNISONO_CHECK(data != nullptr || size == 0, "the value is NULL, but its size is ", size);
  return {static_cast<const std::uint8_t*>(data), size};
}

void give(const Bytes& value, unisono_bytes* out) {
  given(out, "value") = copyOf(value.data(), value.size());
}

/// Copies for the caller of as many values as there are; none at all when memory runs out.
template <typename Values>
unisono_bytes* copiesOf(const Values& values) {
  auto* list = static_cast<unisono_bytes*>(std::calloc(values.size() + 1, sizeof(unisono_bytes)));
  if (list == nullptr) {
    throw std::bad_alloc();
  }
  try {
    for (std::size_t i = 0; i < values.size(); ++i) {
      list[i] = copyOf(values[i].data(), values[i].size());
    }
  } catch (...) {
    unisono_bytes_list_free(list, values.size());
    throw;
  }
  return list;
}

std::vector<std::string> listOf(const char* const* keys, std::size_t count) {
  UNISONO_CHECK(keys != nullptr || count == 0, "keys is NULL, but there are ", count);
  std::vector<std::string> list;
  for (std::size_t i = 0; i < count; ++i) {
    list.emplace_back(textOf(keys[i], "a key"));
  }
  return list;
}

TCPStoreOptions storeOptions(const unisono_tcp_store_options& asked) {
  UNISONO_CHECK(asked.port >= 0 && asked.port <= 65535, asked.port, " is no port");
  TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(asked.port);
  options.isServer = asked.is_server != 0;
  if (asked.worker_count != UNISONO_UNSET) {
    UNISONO_CHECK(asked.worker_count > 0, "worker_count is ", asked.worker_count);
    options.numWorkers = static_cast<std::size_t>(asked.worker_count);
  }
  options.timeout = timeoutOf(asked.timeout_ms);
  return options;
}

/// Runs `body` with the store behind a handle.
template <typename Body>
unisono_status with(unisono_store* store, Body body) noexcept {
  return guarded([&] { body(*given(store, "store").store); });
}

/// Makes a handle for what `make` makes.
template <typename Make>
unisono_status open(unisono_store** store, Make make) noexcept {
  return guarded([&] {
    unisono_store*& out = given(store, "store");
    out = new unisono_store{make()};
  });
}

}  // namespace

unisono_bytes copyOf(const void* data, std::size_t size) {
  auto* copy = static_cast<char*>(std::malloc(size + 1));
  if (copy == nullptr) {
    throw std::bad_alloc();
  }
  std::copy_n(static_cast<const char*>(data), size, copy);
  copy[size] = '\0';
  return {.data = copy, .size = size};
}

}  // namespace unisono::capi

using namespace unisono::capi;  // NOLINT: this file is the outside of that namespace

void unisono_bytes_free(unisono_bytes* bytes) {
  if (bytes != nullptr) {
    std::free(bytes->data);
    *bytes = {.data = nullptr, .size = 0};
  }
}

void unisono_bytes_list_free(unisono_bytes* list, size_t count) {
  for (size_t i = 0; list != nullptr && i < count; ++i) {
    unisono_bytes_free(&list[i]);
  }
  std::free(list);
}

unisono_status unisono_store_tcp(const char* host, const unisono_tcp_store_options* options,
                                 unisono_store** store) {
  return open(store, [&] {
    const auto all = known(options, unisono_tcp_store_options UNISONO_TCP_STORE_OPTIONS);
    return std::make_shared<unisono::TCPStore>(std::string(textOf(host, "host")),
                                               storeOptions(all));
  });
}

unisono_status unisono_store_file(const char* path, int world_size, unisono_store** store) {
  return open(store, [&] {
    return std::make_shared<unisono::FileStore>(std::string(textOf(path, "path")), world_size);
  });
}

unisono_status unisono_store_hash(unisono_store** store) {
  return open(store, [] { return std::make_shared<unisono::HashStore>(); });
}

unisono_status unisono_store_prefix(const char* prefix, unisono_store* inner,
                                    unisono_store** store) {
  return open(store, [&] {
    return std::make_shared<unisono::PrefixStore>(std::string(textOf(prefix, "prefix")),
                                                  given(inner, "inner").store);
  });
}

unisono_status unisono_store_clone(unisono_store* store, unisono_store** clone) {
  return open(clone, [&] { return given(store, "store").store->clone(); });
}

int unisono_store_port(const unisono_store* store) {
  const auto* tcp =
      store == nullptr ? nullptr : dynamic_cast<const unisono::TCPStore*>(store->store.get());
  return tcp == nullptr ? -1 : tcp->port();
}

void unisono_store_free(unisono_store* store) {
  delete store;
}

unisono_status unisono_store_set_timeout(unisono_store* store, int64_t timeout_ms) {
  return with(store, [&](auto& on) { on.setTimeout(std::chrono::milliseconds(timeout_ms)); });
}

unisono_status unisono_store_set(unisono_store* store, const char* key, const void* value,
                                 size_t size) {
  return with(store, [&](auto& on) { on.set(textOf(key, "key"), bytesOf(value, size)); });
}

unisono_status unisono_store_get(unisono_store* store, const char* key, unisono_bytes* value) {
  return with(store, [&](auto& on) {
    given(value, "value");
    give(on.get(textOf(key, "key")), value);
  });
}

unisono_status unisono_store_add(unisono_store* store, const char* key, int64_t delta,
                                 int64_t* sum) {
  return with(store, [&](auto& on) {
    const std::int64_t now = on.add(textOf(key, "key"), delta);
    if (sum != nullptr) {
      *sum = now;
    }
  });
}

unisono_status unisono_store_compare_set(unisono_store* store, const char* key,
                                         const void* expected, size_t expected_size,
                                         const void* desired, size_t desired_size,
                                         unisono_bytes* value) {
  return with(store, [&](auto& on) {
    given(value, "value");
    give(on.compareSet(textOf(key, "key"), bytesOf(expected, expected_size),
                       bytesOf(desired, desired_size)),
         value);
  });
}

unisono_status unisono_store_multi_get(unisono_store* store, const char* const* keys, size_t count,
                                       unisono_bytes* values) {
  return with(store, [&](auto& on) {
    UNISONO_CHECK(values != nullptr || count == 0, "values is NULL, but there are ", count);
    const std::vector<unisono::Bytes> found = on.multiGet(listOf(keys, count));
    unisono_bytes* const copies = copiesOf(found);
    std::copy_n(copies, count, values);
    std::free(copies);
  });
}

unisono_status unisono_store_multi_set(unisono_store* store, const char* const* keys,
                                       const unisono_bytes* values, size_t count) {
  return with(store, [&](auto& on) {
    UNISONO_CHECK(values != nullptr || count == 0, "values is NULL, but there are ", count);
    std::vector<unisono::Bytes> list;
    for (size_t i = 0; i < count; ++i) {
      const unisono::BytesView bytes = bytesOf(values[i].data, values[i].size);
      list.emplace_back(bytes.begin(), bytes.end());
    }
    on.multiSet(listOf(keys, count), list);
  });
}

unisono_status unisono_store_list_keys(unisono_store* store, unisono_bytes** keys, size_t* count) {
  return with(store, [&](auto& on) {
    given(keys, "keys");
    given(count, "count");
    const std::vector<std::string> found = on.listKeys();
    *keys = copiesOf(found);
    *count = found.size();
  });
}

unisono_status unisono_store_append(unisono_store* store, const char* key, const void* value,
                                    size_t size) {
  return with(store, [&](auto& on) { on.append(textOf(key, "key"), bytesOf(value, size)); });
}

unisono_status unisono_store_check(unisono_store* store, const char* const* keys, size_t count,
                                   int* all_set) {
  return with(store, [&](auto& on) {
    given(all_set, "all_set");
    *all_set = on.check(listOf(keys, count)) ? 1 : 0;
  });
}

unisono_status unisono_store_wait(unisono_store* store, const char* const* keys, size_t count,
                                  int64_t timeout_ms) {
  return with(store,
              [&](auto& on) { on.wait(listOf(keys, count), timeoutOf(timeout_ms, on.timeout())); });
}

unisono_status unisono_store_delete(unisono_store* store, const char* key, int* existed) {
  return with(store, [&](auto& on) {
    const bool was = on.deleteKey(textOf(key, "key"));
    if (existed != nullptr) {
      *existed = was ? 1 : 0;
    }
  });
}

unisono_status unisono_store_num_keys(unisono_store* store, int64_t* count) {
  return with(store, [&](auto& on) {
    given(count, "count");
    *count = on.numKeys();
  });
}

unisono_status unisono_store_queue_push(unisono_store* store, const char* key, const void* value,
                                        size_t size) {
  return with(store, [&](auto& on) { on.queuePush(textOf(key, "key"), bytesOf(value, size)); });
}

unisono_status unisono_store_queue_pop(unisono_store* store, const char* key, int block,
                                       unisono_bytes* value) {
  return with(store, [&](auto& on) {
    given(value, "value");
    give(on.queuePop(textOf(key, "key"), block != 0), value);
  });
}

unisono_status unisono_store_queue_len(unisono_store* store, const char* key, int64_t* count) {
  return with(store, [&](auto& on) {
    given(count, "count");
    *count = on.queueLen(textOf(key, "key"));
  });
}

unisono_status unisono_store_barrier(unisono_store* store, const char* key, int64_t world_size,
                                     int64_t timeout_ms) {
  return with(store, [&](auto& on) {
    on.barrier(textOf(key, "key"), world_size, timeoutOf(timeout_ms, on.timeout()));
  });
}
