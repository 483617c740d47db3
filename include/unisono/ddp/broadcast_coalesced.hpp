// broadcastCoalesced: many tensors of one rank, to all others, in few pieces.
#pragma once

#include <cstddef>
#include <span>

#include "unisono/base/api.hpp"
#include "unisono/group/group.hpp"
#include "unisono/tensor/tensor.hpp"

namespace unisono {

inline constexpr std::size_t kDefaultBroadcastBytes = std::size_t{250} << 20;

/// The tensors of rank `root` become those of every rank. Tensors of one type travel together,
/// about `bufferBytes` at a time, and no more than two such pieces are under way; so the memory it
/// needs is bounded. Types, sizes and strides may be mixed; the tensors of all ranks have the same
/// ones. Every rank calls it; throws as Group::broadcast() does, and UsageError for tensors that
/// are none.
UNISONO_API void broadcastCoalesced(const Group& group, std::span<const Tensor> tensors,
                                    std::size_t bufferBytes = kDefaultBroadcastBytes, int root = 0);

}  // namespace unisono
