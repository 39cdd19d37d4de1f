# SPDX-License-Identifier: MIT
# CMake's toolchain file for AArch64 on another machine: Debian's cross compiler, the test libraries
# that tools/setup.sh fetches, and programs run under qemu-user. `make check-arm` uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(arm64_root "${CMAKE_CURRENT_LIST_DIR}/../deps/arm64" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${arm64_root} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${arm64_root}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm64_root})

# A core with the base instruction set alone, which is all that the kernels may use.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu cortex-a53 -L /usr/aarch64-linux-gnu)
