# libunisono: all rooms in one shared library that exports only what is marked UNISONO_API,
# and the same objects as a static archive for the tests, which look inside.
get_property(rooms GLOBAL PROPERTY UNISONO_ROOMS)
set(room_objects "")
foreach(room IN LISTS rooms)
  list(APPEND room_objects $<TARGET_OBJECTS:unisono_${room}>)
endforeach()

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.hpp.in
               ${PROJECT_BINARY_DIR}/include/unisono/version.hpp @ONLY)

add_library(unisono SHARED ${room_objects})
add_library(unisono::unisono ALIAS unisono)
set_target_properties(unisono PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LINKER_LANGUAGE CXX)
target_compile_features(unisono PUBLIC cxx_std_20)
target_include_directories(unisono PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(unisono PRIVATE ${unisono_needs} unisono_hardening)
set(export_list ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_link_options(unisono PRIVATE -Wl,--version-script=${export_list})
set_target_properties(unisono PROPERTIES LINK_DEPENDS ${export_list})

add_library(unisono_inside STATIC ${room_objects})
set_target_properties(unisono_inside PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(unisono_inside PUBLIC
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(unisono_inside PUBLIC ${unisono_needs})
