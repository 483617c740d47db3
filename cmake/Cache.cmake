# Where there is ccache, it keeps what was compiled, for every clone of this tree: a clone that was
# just made builds in the time it takes to link. Set CMAKE_CXX_COMPILER_LAUNCHER to something else,
# or UNISONO_CCACHE to OFF, to do without.
option(UNISONO_CCACHE "Ask ccache, where there is one, before compiling" ${PROJECT_IS_TOP_LEVEL})
find_program(UNISONO_CCACHE_PROGRAM ccache)
if(UNISONO_CCACHE AND UNISONO_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths count from the clone's own folder; precompiled headers are compared by what is in them.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMPILERCHECK=content
    ${UNISONO_CCACHE_PROGRAM})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)
  else()
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
