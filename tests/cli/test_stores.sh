#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# -ctk and -ctv: how keys and values are stored, what is said of it, and that files remember it.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

export WINNOW_MODEL=$tiny_model
printf 'The red boat is called Wren. The green boat is called Heron and carries salt.' >"$work/text"
ask=(-p "What is the red boat called?" -n 4 -t 1)

refused 2 "unknown cache-type-k 'q5_1' \(did you mean q8_0\?\)" \
    run -f "$work/text" "${ask[@]}" -ctk q5_1
refused 2 '--load and --cache-type-v exclude each other' chat --load "$work/a.wkv" -ctv q8_0

# bytes TYPE TYPE: KV bytes of each token.
bytes() {
    run 0 run -f "$work/text" "${ask[@]}" --keep 100% --json -ctk "$1" -ctv "$2"
    json "d['settings']['cache_type_k'] == '$1' and d['settings']['cache_type_v'] == '$2'"
    python3 -c 'import json, sys
c = json.load(open(sys.argv[1]))["answers"][0]["compression"]
print(c["kv_after_bytes"] / c["entries_after"])' "$work/out"
}
f16=$(bytes f16 f16) q8=$(bytes q8_0 q8_0) mixed=$(bytes q8_0 q4_0)
# Keys and values have 64 numbers in the real model, and 16 in the tiny one, which take a block of 32.
expected=72.0/76.0/60.0
[ "$tiny_model" != "$real_model" ] || expected=264.0/144.0/112.0
[ "$f16/$q8/$mixed" = "$expected" ] || fail "bytes of an entry: $f16, $q8, $mixed"

run 0 compress -f "$work/text" -o "$work/a.wkv" -t 1 --policy k-norm --keep 50% -ctk q8_0 -ctv q4_0
says 'types +keys stored as q8_0, values as q4_0'
run 0 inspect "$work/a.wkv"
grep -Eq 'KV cache +.* keys as q8_0, values as q4_0$' "$work/out" || fail "types are not shown"
run 0 inspect "$work/a.wkv" --json
json 'd["file"]["cache_type_k"] == "q8_0" and d["file"]["cache_type_v"] == "q4_0"'
run 0 ask "$work/a.wkv" "${ask[@]}"
says 'types +keys stored as q8_0, values as q4_0'
refused 2 "unknown flag" ask "$work/a.wkv" "${ask[@]}" -ctk q8_0
run 0 chat --load "$work/a.wkv" -t 1 -n 2 <<<"Hello"
says 'types +keys stored as q8_0, values as q4_0'
run 0 run -f "$work/text" "${ask[@]}"
says_not 'keys stored as'

finish
