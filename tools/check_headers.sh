#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles every header on its own, all as C11 and the public ones as C++ too, and sees that machines
# of 32 bits and big-endian ones are refused.
# Usage: check_headers.sh CC CXX [include options...]
set -euo pipefail

cc=$1
cxx=$2
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."

options=(-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Werror
    -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -Iinclude -Isrc "$@")
failed=0

check() {
    local header=$1
    shift
    if ! printf '#include "%s"\ntypedef int wn_not_empty;\n' "$PWD/$header" |
        "$@" "${options[@]}" -fsyntax-only -; then
        printf '%s does not compile alone with %s\n' "$header" "$1" >&2
        failed=1
    fi
}

# Templates and the vector headers are parts of one file and are left out.
while IFS= read -r header; do
    check "$header" "$cc" -std=c11 -x c
done < <(find include src -name '*.h' ! -name '*.tmpl.h' ! -name 'vec_*.h' | sort)

for header in include/*.h; do
    check "$header" "$cxx" -std=c++11 -x c++
done

# refused REASON FLAG...: what every source file includes does not compile with the flags. The C
# library may be there for this machine alone, so that it is left out.
refused() {
    local reason=$1 output
    shift
    if output=$("$cc" -Iinclude -ffreestanding -fsyntax-only -x c "$@" src/kernels/kernels.h 2>&1) ||
        [[ $output != *"error: "*"Winnow needs a $reason machine"* ]]; then
        printf 'a machine that is not %s is not refused: %s\n' "$reason" "$output" >&2
        failed=1
    fi
}

refused little-endian -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
if [[ $(uname -m) == x86_64 ]]; then
    refused 64-bit -m32
fi
exit "$failed"
