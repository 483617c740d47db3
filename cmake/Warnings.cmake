# unisono_warnings: what every target of ours is compiled with, and nothing that leaks to users.
add_library(unisono_warnings INTERFACE)
target_compile_options(unisono_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wthread-safety-beta>
  $<$<BOOL:${UNISONO_WERROR}>:-Werror>)

# Hardening of what ships (not with sanitizers: they replace the same checks).
add_library(unisono_hardening INTERFACE)
if(NOT UNISONO_SANITIZE)
  target_compile_options(unisono_hardening INTERFACE -fstack-protector-strong)
  target_compile_definitions(unisono_hardening INTERFACE
    _GLIBCXX_ASSERTIONS $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
  target_link_options(unisono_hardening INTERFACE -Wl,-z,relro,-z,now -Wl,-z,noexecstack)
endif()
