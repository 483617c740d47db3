# Rooms: one folder of src/ each, compiled once and linked into the library.

# Starts the list of rooms anew, so that a re-run of CMake does not append to an old one.
function(unisono_rooms_begin)
  file(WRITE ${PROJECT_BINARY_DIR}/rooms.txt "")
endfunction()

# unisono_room(<name> SOURCES <files...> [DEPS <rooms...>] [LIBRARIES <targets...>])
#
# DEPS are the only statement of the layering: they become include permissions,
# and are written to rooms.txt, against which tools/check_layers.py checks every
# #include. LIBRARIES are third-party targets that this room alone may use.
function(unisono_room name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS;LIBRARIES")
  add_library(unisono_${name} OBJECT ${ARG_SOURCES})
  set_target_properties(unisono_${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  if(UNISONO_PREBUILT) # compiled already, see cmake/Prebuilt.cmake
    set_target_properties(unisono_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_include_directories(unisono_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(unisono_${name}
    PUBLIC Threads::Threads ${ARG_LIBRARIES}
    PRIVATE unisono_warnings unisono_hardening)
  foreach(dep IN LISTS ARG_DEPS)
    if(NOT TARGET unisono_${dep})
      message(FATAL_ERROR "room '${name}' needs '${dep}', which is not below it")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY UNISONO_ROOMS ${name})
  file(APPEND ${PROJECT_BINARY_DIR}/rooms.txt "${name}: ${ARG_DEPS}\n")
endfunction()
