// FileStore: a store in a file that all ranks can reach; its format is PyTorch's.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "unisono/store/store.hpp"

namespace unisono {

/// A log of records under flock. Stock PyTorch processes may share the file.
///
/// `worldSize` >= 0: the file is removed when the last object on it is destroyed and at least
/// that many have been; -1 leaves it. A file left by a job whose processes are all gone is
/// reclaimed; one that is not a store is refused (PROTOCOL) and not touched; a FIFO, directory,
/// link or a file of another user is refused (CONFIG).
///
/// Thread safety and timeouts: as Store; waiting for the file's lock counts as waiting. Queues
/// are not offered (NotSupportedError).
///
/// Errors: as Store; besides, DistStoreError with STORE_LOST when the file was removed or
/// replaced and PROTOCOL when it was damaged (after both every call throws the same), RESOURCE
/// when the disk is full: then nothing was changed.
class UNISONO_API FileStore final : public Store {
 public:
  /// `timeout`: for opening, and timeout() afterwards; nullopt for the default.
  explicit FileStore(std::string path, int worldSize = -1,
                     std::optional<std::chrono::milliseconds> timeout = std::nullopt);
  ~FileStore() override;

  /// A store for tools that look into the file of a job: it is not counted as one of the job, and
  /// never reclaims or removes the file. The file is made if there is none.
  static std::shared_ptr<FileStore> visit(
      std::string path, std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  using Store::append;
  using Store::barrier;
  using Store::check;
  using Store::compareSet;
  using Store::set;
  using Store::wait;

  void set(std::string_view key, BytesView value) override;
  Bytes get(std::string_view key) override;
  Bytes compareSet(std::string_view key, BytesView expected, BytesView desired) override;
  Swap trySwap(std::string_view key, BytesView expected, BytesView desired) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  bool deleteKey(std::string_view key) override;
  std::int64_t deletePrefix(std::string_view prefix) override;
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override;
  std::int64_t numKeys() override;
  std::vector<std::string> listKeys() override;
  void append(std::string_view key, BytesView value) override;
  std::vector<Bytes> multiGet(std::span<const std::string> keys) override;
  void multiSet(std::span<const std::string> keys, std::span<const Bytes> values) override;
  bool hasExtendedApi() const override { return true; }

  /// Another object on the same file; it counts as one more user of it, unless this one is a
  /// visitor.
  std::shared_ptr<Store> clone() override;

  const std::string& path() const noexcept;

 private:
  struct Impl;
  explicit FileStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono
