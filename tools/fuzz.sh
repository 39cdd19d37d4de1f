#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs every fuzzer of a folder for some seconds: fuzz.sh FOLDER SECONDS. Inputs that reach new code
# are kept in FOLDER/corpus; those in tests/fuzz/corpus/<name> are the seeds.
set -euo pipefail
shopt -s nullglob

folder=$1
seconds=$2
seeds=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/tests/fuzz/corpus

cd "$folder"
for fuzzer in ./fuzz_*; do
    name=${fuzzer#./fuzz_}
    corpus=(corpus/"$name")
    mkdir -p "${corpus[0]}"
    if [[ -d $seeds/$name ]]; then
        corpus+=("$seeds/$name")
    fi
    printf '%s: %s s\n' "$name" "$seconds"
    "$fuzzer" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 \
        -verbosity=0 "${corpus[@]}"
done
