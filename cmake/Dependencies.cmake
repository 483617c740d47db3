# Everything comes from the system; nothing is fetched while configuring.
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv>=1.43)
pkg_check_modules(libhwy REQUIRED IMPORTED_TARGET libhwy>=1.0.3)

# What libunisono stands on.
set(unisono_needs Threads::Threads fmt::fmt spdlog::spdlog PkgConfig::libuv PkgConfig::libhwy
  OpenSSL::Crypto)

if(UNISONO_BUILD_CLI AND NOT UNISONO_PREBUILT)
  find_package(CLI11 2.1 REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
endif()
