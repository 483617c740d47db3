# Writes OUTPUT, which says what commit SOURCE is of; left alone when that has not changed.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty
                OUTPUT_VARIABLE id OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR id STREQUAL "")
  set(id unknown)
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
// Made by cli/build_id.cmake.
#include "build_id.hpp"

namespace unisono::cli {
const char* const kBuildId = "@id@";
}
]])
