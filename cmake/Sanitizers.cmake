# UNISONO_SANITIZE=address,undefined or thread: set for the whole build, since mixing is undefined.
if(UNISONO_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link) # tells the fuzzer which code an input reaches
endif()
if(UNISONO_SANITIZE)
  add_compile_options(-fsanitize=${UNISONO_SANITIZE} -fno-omit-frame-pointer -g1) # lines, for stack traces
  add_link_options(-fsanitize=${UNISONO_SANITIZE})
  if(UNISONO_SANITIZE MATCHES thread)
    add_compile_options(-O1) # twice as fast to run, and no slower to compile
  endif()
  if(UNISONO_SANITIZE MATCHES undefined)
    # Not vptr: it asks the kernel, through a pipe, whether an object's memory can be read, and so
    # takes every object for wrong in the tests that use up all descriptors.
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=vptr)
  endif()
endif()
