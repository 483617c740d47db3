# UNISONO_TOGETHER: what several files include and instantiate is compiled once. Files that are
# compiled as one may not give one name to two things, not even in unnamed namespaces. That each
# file can also stand by itself is what tools/check_headers.py sees to.

# unisono_together(<target> [<file>...]): compiles the files of a target as a few, or
# the ones that are named as one.
function(unisono_together target)
  if(NOT UNISONO_TOGETHER)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # It takes what is not in the file itself for a header, where unnamed namespaces are a mistake.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  if(ARGN)
    list(GET ARGN 0 first)
    get_filename_component(group ${first} NAME_WE)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  endif()
endfunction()
