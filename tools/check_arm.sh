#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the core for AArch64 and runs the tests that need no model under an emulator, but for those
# that take minutes there. Where the cross compiler, the emulator or the libraries cannot be had it
# passes with a note, or fails when WINNOW_REQUIRE_ARM is set.
# Usage: check_arm.sh BUILD_FOLDER [cmake options...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$1
shift

skip() {
    if [[ -n ${WINNOW_REQUIRE_ARM:-} ]]; then
        printf 'check-arm: %s, and WINNOW_REQUIRE_ARM is set.\n' "$1" >&2
        exit 1
    fi
    printf 'check-arm: %s; the tests of AArch64 are skipped.\n' "$1" >&2
    exit 0
}

if [[ $(uname -m) == aarch64 ]]; then
    echo 'check-arm: this is an AArch64 machine; make check runs the same tests.'
    exit 0
fi
# CC is the compiler of this machine, which the toolchain file replaces.
unset CC CXX
tools/setup.sh tools core arm || skip 'the cross compiler or the emulator is missing'
tools/setup.sh arm64 || skip 'the test libraries are missing'

mkdir -p "$build"
generator=()
if [[ ! -f $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then
    generator=(-G Ninja)
fi
cmake -S . -B "$build" "${generator[@]}" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" \
    -DWINNOW_ENGINE=OFF "$@" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log" >&2
    exit 1
}
cmake --build "$build" --target all tests

# Statistics over many draws, damaged files one byte after the other, and a program of this machine.
left_out='^unit\.(cache_file_damage|divide|draws|plot|ruler_needles|unbiased)$'
cd "$build"
ctest --output-on-failure --no-label-summary --timeout 600 -E "$left_out" \
    -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
