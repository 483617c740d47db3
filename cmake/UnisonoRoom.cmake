# Rooms: one folder of src/ each, compiled once and linked into the library.

# Starts the list of rooms anew, so that a re-run of CMake does not append to an old one.
function(unisono_rooms_begin)
  file(WRITE ${PROJECT_BINARY_DIR}/rooms.txt "")

  # What nearly every file includes, compiled once. No file may rely on it: tools/check_headers.py
  # compiles all of them without.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/common.cpp CONTENT "")
  add_library(unisono_common OBJECT ${PROJECT_BINARY_DIR}/common.cpp)
  unisono_room_options(unisono_common)
  target_precompile_headers(unisono_common PRIVATE
    <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <exception> <functional> <map>
    <memory> <mutex> <optional> <span> <string> <string_view> <unordered_map> <utility> <variant>
    <vector>)
endfunction()

# unisono_room_options(<target>): how the code of all rooms is compiled.
function(unisono_room_options target)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  if(UNISONO_PREBUILT) # compiled already, see cmake/Prebuilt.cmake
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_link_libraries(${target}
    PUBLIC Threads::Threads
    PRIVATE unisono_warnings unisono_hardening)
endfunction()

# unisono_room(<name> SOURCES <files...> [DEPS <rooms...>] [LIBRARIES <targets...>])
#
# DEPS are the only statement of the layering: they become include permissions,
# and are written to rooms.txt, against which tools/check_layers.py checks every
# #include. LIBRARIES are third-party targets that this room alone may use.
function(unisono_room name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS;LIBRARIES")
  add_library(unisono_${name} OBJECT ${ARG_SOURCES})
  unisono_room_options(unisono_${name})
  target_precompile_headers(unisono_${name} REUSE_FROM unisono_common)
  target_include_directories(unisono_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(unisono_${name} PUBLIC ${ARG_LIBRARIES})
  unisono_together(unisono_${name})
  foreach(dep IN LISTS ARG_DEPS)
    if(NOT TARGET unisono_${dep})
      message(FATAL_ERROR "room '${name}' needs '${dep}', which is not below it")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY UNISONO_ROOMS ${name})
  file(APPEND ${PROJECT_BINARY_DIR}/rooms.txt "${name}: ${ARG_DEPS}\n")
endfunction()
