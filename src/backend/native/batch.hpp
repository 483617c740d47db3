// A batch: operations that are started together and end as one Work.
#pragma once

#include <cstdint>
#include <vector>

#include "unisono/work/collective_args.hpp"
#include "unisono/work/work.hpp"

namespace unisono {

/// Makes one allreduceCoalesced of neighbours in `batch` that are small all_reduces of one type and
/// operation; messages do not come between them. All ranks come to the same calls, as they depend
/// only on what the ranks must agree on.
std::vector<CollectiveArgs> fuseSmallReductions(std::vector<CollectiveArgs> batch);

/// A Work that ends when all of `parts` have, with the first of their failures, or with all their
/// outputs.
WorkPtr joinWorks(std::uint64_t seq, std::vector<WorkPtr> parts);

}  // namespace unisono
