#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Benchmarks: what is refused, and that the speed benchmark keeps, shows and goes on with what it
# measured, on a tiny model.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

run 0 bench --help
[[ $out == *"  speed "* && $out == *"  targets "* ]] || fail "the help does not list the benchmarks"
refused 2 'which benchmark\? \(winnow bench --help lists them\)' bench
refused 2 'unknown benchmark sped \(did you mean speed\?\)' bench sped
run 0 bench speed --help
[[ $out == *"--length TOKENS"* && $out == *"--shard I/N"* && $out == *"default 3"* ]] ||
    fail "incomplete help"
run 0 bench targets --help
[[ $out == *"--only GROUP"* ]] || fail "incomplete help"
missing=(bench speed -m /nonexistent/model.gguf)
refused 2 "unknown flag --lenght \(did you mean --length\?\)" "${missing[@]}" --lenght 64
refused 2 "--keep '64' is refused \(not a share" "${missing[@]}" --keep 64
refused 2 "unknown type 'q9' " "${missing[@]}" --type q9
refused 1 '/nonexistent/model.gguf' "${missing[@]}"

zoo=${WINNOW_ZOO:-}
if [ ! -f "$zoo/llama.gguf" ]; then
    echo "skipped: there are no tiny models"
    exit 77
fi
speed=(bench speed -m "$zoo/llama.gguf" --length 64 -t 1 --rounds 1 --type f16)
file=$work/speed.jsonl

# A row for each share; llama.cpp has no cache of q8_0 for heads this small.
run 0 "${speed[@]}" --keep 100% --keep 50% -o "$file" --markdown
grep -Eq '^### 1 thread, f16, read bandwidth [0-9.]+ GB/s$' <<<"$out" || fail "no heading"
[ "$(grep -Ec '^\| 64 \| (100|50) % \| [0-9.]+ \| 0 % \| [0-9.]+ \| [0-9.]+ \| - \| [0-9.]+ x \|' <<<"$out")" -eq 4 ] ||
    fail "not two rows of each table"
[ "$(wc -l <"$file")" -eq 4 ] || fail "not a header and three cells in the file"

# Other stores are rows of their own.
run 0 bench speed -m "$zoo/llama.gguf" --length 64 -t 1 --rounds 1 --keep 50% --json
json '[row["type"] for row in d["rows"]] == ["f16", "q8_0", "q4_0"]'

# What is there is shown and not measured again, what is missing is added.
cp "$file" "$work/before"
run 0 "${speed[@]}" --keep 50% -o "$file"
says '^winnow: 3 results are in .*, 0 cells are missing$'
cmp -s "$file" "$work/before" || fail "the file changed although nothing was missing"
run 0 "${speed[@]}" --keep 50% --keep 25% -o "$file" --json -q
[ -z "$err" ] || fail "output on standard error"
json '[r["keep"] for r in d["rows"]] == [0.5, 0.25]'
json 'len(d["cells"]) == 4 and d["benchmark"] == "speed" and d["settings"]["rounds"] == 1'
json 'all(r["decode_tokens_per_second"] > 0 and r["read_share"] > 0 for r in d["rows"])'
json 'all(r["llama_q8_0_decode_tokens_per_second"] is None for r in d["rows"])'
json 'd["rows"][1]["entries"] * 2 == d["rows"][0]["entries"]'

# Shards, joined, are one file.
for shard in 1/2 2/2; do
    run 0 "${speed[@]}" --length 96 --keep 100% --shard "$shard" -q -o "$work/shard-${shard%/2}"
    [ "$(wc -l <"$work/shard-${shard%/2}")" -eq 3 ] || fail "shard $shard did not measure one race"
done
cat "$work/shard-1" "$work/shard-2" >"$work/joined"
run 0 "${speed[@]}" --length 96 --keep 100% -o "$work/joined"
says '4 results are in .*joined, 0 cells are missing'

# Other settings, another model and other files are refused, and left as they are.
refused 1 'its rounds is 1, and here it is 3; name another file' \
    bench speed -m "$zoo/llama.gguf" --length 64 -t 1 -o "$file"
refused 1 'measured with another model' \
    bench speed -m "$zoo/qwen2.gguf" --length 64 -t 1 --rounds 1 -o "$file"
echo "my notes" >"$work/notes"
refused 1 "holds no results of Winnow's" "${speed[@]}" -o "$work/notes"
[ "$(cat "$work/notes")" = "my notes" ] || fail "the notes are gone"
refused 1 'cannot write .*nowhere' "${speed[@]}" -o /nonexistent/nowhere/file

# Pictures and their data, drawn by a stand-in.
mkdir "$work/bin" "$work/plots"
printf '#!/bin/sh\nexec cat\n' >"$work/bin/gnuplot"
chmod +x "$work/bin/gnuplot"
PATH=$work/bin:$PATH run 0 "${speed[@]}" --keep 50% -o "$file" -q --plot "$work/plots/s"
[ "$(cd "$work/plots" && echo *)" = "s-decode.png s-decode.svg s-decode.tsv s-prefill.png s-prefill.svg s-prefill.tsv" ] ||
    fail "not these plots: $(ls "$work/plots")"
[ "$(head -1 "$work/plots/s-decode.tsv")" = "$(printf 'length\tllama.cpp flash\tllama.cpp plain\tllama.cpp q8_0\tkeep 50 %%')" ] ||
    fail "odd data: $(head -1 "$work/plots/s-decode.tsv")"
[ "$(wc -l <"$work/plots/s-decode.tsv")" -eq 2 ] || fail "not one length"

# Ctrl-C: what is measured is shown, kept, and gone on with.
interrupt=$work/interrupt.jsonl
stop_at 3 "$interrupt" "${speed[@]}" --length 96 --length 1000 --keep 100% --rounds 9 -o "$interrupt"
says 'stopped on request: [2-5] results are there; the same command goes on from there$'
grep -Eq '^ +64 +100 %' <<<"$out" || fail "what was measured is not shown"
run 0 "${speed[@]}" --length 96 --length 1000 --keep 100% --rounds 9 -o "$interrupt" --json
says '^winnow: [2-5] results are in '
json 'len(d["rows"]) == 3'
finish
