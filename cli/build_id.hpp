// The commit that the program was built from. Its source is made by build_id.cmake, at build time.
#pragma once

namespace unisono::cli {

/// As git describes it; "unknown" where there is no repository.
extern const char* const kBuildId;

}  // namespace unisono::cli
