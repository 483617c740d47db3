# UNISONO_SANITIZE=address,undefined or thread: set for the whole build, since mixing is undefined.
if(UNISONO_SANITIZE)
  add_compile_options(-fsanitize=${UNISONO_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${UNISONO_SANITIZE})
  if(UNISONO_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
