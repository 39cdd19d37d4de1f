#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Formats our C files in place; with --check changes nothing and fails on a file that would change.
# Versions of clang-format differ in their output, so only version 14 counts; without it --check
# passes with a note, or fails when WINNOW_REQUIRE_FORMAT is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=14
formatter=
for candidate in "${CLANG_FORMAT:-}" "clang-format-$version" clang-format; do
    if [[ -n $candidate ]] && command -v "$candidate" >/dev/null &&
        "$candidate" --version | grep -q "version $version\."; then
        formatter=$candidate
        break
    fi
done
if [[ -z $formatter ]]; then
    printf 'format: clang-format %s is not installed.\n' "$version" >&2
    if [[ ${1:-} == --check && -z ${WINNOW_REQUIRE_FORMAT:-} ]]; then
        exit 0
    fi
    exit 1
fi

mapfile -t files < <(find include src tests -name '*.[ch]' | sort)
if [[ ${1:-} == --check ]]; then
    "$formatter" --style=file --dry-run -Werror "${files[@]}"
    if command -v shellcheck >/dev/null; then
        mapfile -t scripts < <(find .ci/run tools tests -name '*.sh' -o -path .ci/run | sort)
        shellcheck -s bash -x -P SCRIPTDIR "${scripts[@]}"
    fi
else
    "$formatter" --style=file -i "${files[@]}"
fi
