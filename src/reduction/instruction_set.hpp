// Which vector instructions the kernels use: the widest that this processor has, unless told.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unisono {

/// Those that the kernels were compiled for and this processor has, widest first: "AVX3" (AVX-512),
/// "AVX2", "SSE4", "NEON", "SCALAR".
std::vector<std::string> instructionSets();

/// What the next Reduction::of() and scale() use. Throws UsageError when it is not among
/// instructionSets(). For tests, which compare them: no other thread may reduce meanwhile.
void useInstructionSet(std::string_view name);

/// Back to the widest.
void useBestInstructionSet();

}  // namespace unisono
