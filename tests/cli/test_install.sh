#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The installed core is enough to build the example, through pkg-config and through CMake.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build_dir=$(dirname "$WINNOW_BIN")
prefix=$work/prefix

cmake --install "$build_dir" --prefix "$prefix" >"$work/install.log" 2>&1 ||
    fail "installing failed: $(tail -3 "$work/install.log")"
package=$(find "$prefix" -name winnow_core.pc)
[ -n "$package" ] || fail "no pkg-config file was installed"

# The installed tree may be moved.
mv "$prefix" "$work/moved"
package=${package/#$prefix/$work/moved}
mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(winnow_core REQUIRED)
add_executable(example $source_dir/examples/score_and_sample.c)
target_link_libraries(example PRIVATE winnow::winnow_core)
END
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$work/moved" \
    >"$work/cmake.log" 2>&1 || fail "CMake does not find the package: $(tail -5 "$work/cmake.log")"
cmake --build "$work/consumer/build" >"$work/cmake.log" 2>&1 ||
    fail "the example does not build through CMake: $(tail -5 "$work/cmake.log")"
"$work/consumer/build/example" >"$work/printed" || fail "the example fails"
# "error E <= B, output O", behind names that have commas of their own.
awk '{ gsub(",", "") }
     { for (i = 2; i < NF; i++) if ($i == "<=") { n++; above += $(i - 1) + 0 > $(i + 1) + 0 } }
     END { exit n != 3 || above }' "$work/printed" ||
    fail "the example's errors are not three below their bounds: $(cat "$work/printed")"

if command -v pkg-config >/dev/null; then
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Werror "$source_dir/examples/score_and_sample.c" \
        $(PKG_CONFIG_PATH=$(dirname "$package") pkg-config --cflags --libs winnow_core) \
        -o "$work/example" || fail "the example does not build through pkg-config"
    "$work/example" | diff - "$work/printed" || fail "the two builds print differently"
fi
finish
