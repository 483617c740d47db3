// Secret: what the processes of a job know and nobody else does, and the keys made of it.
//
// The secret itself is never sent. Every use has a key of its own, derived from it, so that what is
// seen of one use says nothing about another.
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

/// The job's secret: the content of the file that UNISONO_AUTH_SECRET_FILE names, without a line
/// end, or UNISONO_AUTH_SECRET. Nothing when neither is set. Throws UsageError (CONFIG) for a file
/// that cannot be read or that others may read, and for less than 16 bytes.
std::optional<std::string> jobSecret();

/// Whether UNISONO_ALLOW_UNAUTHENTICATED lets strangers in: on a network that is trusted.
bool isUnauthenticatedAllowed();

/// The key for `purpose` ("store", "mesh"): HKDF-SHA256 of `secret`.
Key deriveKey(std::string_view secret, std::string_view purpose);

/// HMAC-SHA256 of all `parts`, one after the other.
Key authenticate(const Key& key, std::initializer_list<std::string_view> parts);

/// Takes the same time whatever differs.
bool isSame(const Key& a, std::string_view b) noexcept;

/// `count` bytes that nobody can guess.
std::string randomBytes(std::size_t count);

}  // namespace unisono
