// Counts: what calls about all keys at once say about each group of keys.
//
// Such a call has to do with every key, and to search an order of everything at once takes too
// long. A list says of every group which of its keys were there. A number says of a group how many
// were there if it is known of the others; of a key that is known when a call about it ended
// before, and nothing that may have changed that could have come in between. What remains open is a
// range. So nothing right is rejected; of what is wrong that shows which is not open to doubt.
#pragma once

#include "linear/history.hpp"

namespace unisono::linear {

/// `history` with its calls about all keys replaced by calls about the keys of one group each. The
/// answers of the one follow from those of the other.
History countedApart(const History& history);

}  // namespace unisono::linear
