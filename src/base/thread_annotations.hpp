// Clang's thread-safety analysis: who may touch what, checked while compiling. Empty for GCC.
#pragma once

#if defined(__clang__)
#define UNISONO_TSA(x) __attribute__((x))
#else
#define UNISONO_TSA(x)
#endif

#define UNISONO_CAPABILITY(name) UNISONO_TSA(capability(name))
#define UNISONO_SCOPED_CAPABILITY UNISONO_TSA(scoped_lockable)
#define UNISONO_GUARDED_BY(x) UNISONO_TSA(guarded_by(x))
#define UNISONO_REQUIRES(...) UNISONO_TSA(requires_capability(__VA_ARGS__))
#define UNISONO_EXCLUDES(...) UNISONO_TSA(locks_excluded(__VA_ARGS__))
#define UNISONO_ACQUIRE(...) UNISONO_TSA(acquire_capability(__VA_ARGS__))
#define UNISONO_RELEASE(...) UNISONO_TSA(release_capability(__VA_ARGS__))
#define UNISONO_ASSERT_HELD(x) UNISONO_TSA(assert_capability(x))
#define UNISONO_NO_ANALYSIS UNISONO_TSA(no_thread_safety_analysis)
