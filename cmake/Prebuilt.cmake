# UNISONO_PREBUILT: the rooms, the measuring and the commands as another build directory of the same
# tree has compiled them, so that the Python package need only be linked. Refused when that build
# is of another tree, compiler or kind, or lacks something; that it is up to date is for whoever
# names it to see to (scripts/test.sh builds it just before).
load_cache(${UNISONO_PREBUILT} READ_WITH_PREFIX prebuilt_
  CMAKE_HOME_DIRECTORY CMAKE_CXX_COMPILER CMAKE_CXX_FLAGS CMAKE_BUILD_TYPE UNISONO_SANITIZE)
file(REAL_PATH ${prebuilt_CMAKE_CXX_COMPILER} prebuilt_compiler) # c++ and g++ may be one
file(REAL_PATH ${CMAKE_CXX_COMPILER} compiler)
foreach(fact compiler CMAKE_CXX_FLAGS CMAKE_BUILD_TYPE UNISONO_SANITIZE)
  if(NOT "${prebuilt_${fact}}" STREQUAL "${${fact}}")
    message(FATAL_ERROR "${UNISONO_PREBUILT} was built with ${fact}='${prebuilt_${fact}}', "
                        "this is '${${fact}}': build without UNISONO_PREBUILT")
  endif()
endforeach()
if(NOT prebuilt_CMAKE_HOME_DIRECTORY STREQUAL PROJECT_SOURCE_DIR)
  message(FATAL_ERROR "${UNISONO_PREBUILT} is a build of ${prebuilt_CMAKE_HOME_DIRECTORY}")
endif()

# unisono_prebuilt(<name> [libraries it needs...]): libunisono_<name>.a under its usual name.
function(unisono_prebuilt name)
  set(archive ${UNISONO_PREBUILT}/lib/libunisono_${name}.a)
  if(NOT EXISTS ${archive})
    message(FATAL_ERROR "${archive} is missing: build ${UNISONO_PREBUILT} first")
  endif()
  add_library(unisono_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(unisono_${name} PROPERTIES
    IMPORTED_LOCATION ${archive}
    IMPORTED_LINK_INTERFACE_LANGUAGES CXX)
  target_include_directories(unisono_${name} INTERFACE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${UNISONO_PREBUILT}/include)
  target_link_libraries(unisono_${name} INTERFACE ${ARGN})
endfunction()

unisono_prebuilt(inside ${unisono_needs})
unisono_prebuilt(bench unisono_inside)
unisono_prebuilt(cli unisono_bench unisono_inside)
