# What `cmake --install` puts where: the library, its public headers, the program, and what lets
# others find them (CMake package, pkg-config file). The installed tree may be moved as a whole.
include(CMakePackageConfigHelpers)

set(unisono_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)

install(TARGETS unisono EXPORT unisonoTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ ${PROJECT_BINARY_DIR}/include/
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The program finds the library beside itself, wherever the tree is moved.
if(UNISONO_BUILD_CLI AND NOT UNISONO_SANITIZE) # which does not build it by itself
  file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(unisono_program PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS unisono_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# find_package(unisono)
install(EXPORT unisonoTargets NAMESPACE unisono:: DESTINATION ${unisono_cmake_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/unisonoConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/unisonoConfig.cmake
  INSTALL_DESTINATION ${unisono_cmake_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/package/unisonoConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/unisonoConfig.cmake
  ${PROJECT_BINARY_DIR}/package/unisonoConfigVersion.cmake
  DESTINATION ${unisono_cmake_dir})

# pkg-config: paths from the place of the .pc file, unless the user gave absolute folders.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
  set(UNISONO_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(UNISONO_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(UNISONO_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
  set(UNISONO_PC_PREFIX "\${pcfiledir}/${pc_to_prefix}")
  set(UNISONO_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(UNISONO_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/unisono.pc.in
               ${PROJECT_BINARY_DIR}/package/unisono.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/unisono.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
