// Copies, for memory that is looked at again soon and for memory that is not.
#pragma once

#include <cstddef>

namespace unisono {

/// Copies `bytes`; the two do not overlap. What was copied is in the cache afterwards.
void copyBytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// The same for a large `to` that this processor will not read soon: writes past the cache, which
/// saves reading `to` first and keeps what else is in the cache. What is written is visible to
/// others after the next release, as with every store.
void copyStream(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace unisono
