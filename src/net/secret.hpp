// Secret: what the processes of a job know and nobody else does, and the keys made of it.
//
// The secret itself is never sent. Every use has a key of its own, derived from it, so that what is
// seen of one use says nothing about another. It is read where a key is needed, and forgotten as
// soon as there is one.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace unisono {

/// Of HMAC-SHA256, as key and as code.
using Key = std::array<std::uint8_t, 32>;

/// Bytes that are nobody else's business. They lie in pages of their own, which no core file shows,
/// and are wiped when it goes.
class Secret {
 public:
  /// All `parts`, one after the other. Throws DistError (RESOURCE).
  explicit Secret(std::initializer_list<std::string_view> parts);
  /// As many zeros, for the caller to overwrite.
  explicit Secret(std::size_t size);
  ~Secret();
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&&) = delete;

  std::string_view view() const noexcept { return {pages_, size_}; }
  char* data() noexcept { return pages_; }
  /// No more than before: what is behind it is wiped.
  void shrink(std::size_t size) noexcept;

 private:
  char* pages_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_ = 0;
};

/// The job's secret: the content of the file that UNISONO_AUTH_SECRET_FILE names, without a line
/// end, or UNISONO_AUTH_SECRET. Nothing when neither is set. Throws UsageError (CONFIG) for a file
/// that cannot be read or that others may read, and for less than 16 bytes.
std::optional<Secret> jobSecret();

/// Whether UNISONO_ALLOW_UNAUTHENTICATED lets strangers in: on a network that is trusted.
bool isUnauthenticatedAllowed();

/// The key for `purpose` ("store", "mesh"): HKDF-SHA256 of `secret`.
Key deriveKey(std::string_view secret, std::string_view purpose);

/// HMAC-SHA256 of all `parts`, one after the other.
Key authenticate(const Key& key, std::initializer_list<std::string_view> parts);

/// Takes the same time whatever differs.
bool isSame(const Key& a, std::string_view b) noexcept;

/// Leaves zeros where `bytes` are, and nothing in them.
void wipe(std::string& bytes) noexcept;

/// `count` bytes that nobody can guess.
std::string randomBytes(std::size_t count);

}  // namespace unisono
