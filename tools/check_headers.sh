#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles every header on its own, all as C11 and the public ones as C++ too.
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
exit "$failed"
