#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `winnow inspect`: the table, the JSON object and the plot, and that their figures are consistent.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$work/text" <<'TEXT'
The ferry to Skarne leaves at six in the morning and at four in the afternoon, except when the ice
is in. Then a sledge goes, drawn by two grey ponies, and takes whoever has paid and whatever has
been tied down. The ponies are called Bishop and Knight, and neither likes the rook.
TEXT
ask=(inspect -t 1 -f "$work/text")

# shows PATTERN: as says, for standard output.
shows() {
    grep -Eq -- "$1" "$work/out" || fail "standard output does not match: $1"
}

# total NAME: a figure over all heads.
total() {
    python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["totals"][sys.argv[2]])' "$work/out" "$1"
}

# consistent: what holds for every inspection.
consistent() {
    json 'len(d["heads"]) == d["totals"]["heads"] == 90' \
        '[(h["layer"], h["head"]) for h in d["heads"]] == [(l, h) for l in range(30) for h in range(3)]' \
        'sum(h["kept"] for h in d["heads"]) == d["totals"]["entries_after"]' \
        'sum(h["entries"] for h in d["heads"]) == d["totals"]["entries_before"]' \
        'sum(h["merged"] for h in d["heads"]) == d["totals"]["merged"]' \
        'all(h["entries"] == d["totals"]["tokens"] == d["prompt"]["tokens_read"] for h in d["heads"])' \
        'all(1 <= h["protected"] <= h["kept"] <= h["entries"] for h in d["heads"])' \
        'all(h["bound"] >= h["error"] * (1 - 1e-9) - 1e-12 for h in d["heads"])' \
        'all(h["error_max"] >= h["error"] * (1 - 1e-9) for h in d["heads"])' \
        'all(h["bound_max"] >= h["bound"] * (1 - 1e-9) for h in d["heads"])' \
        'all(h["queries"] == 3 * d["settings"]["queries"] for h in d["heads"])' \
        'all(0 <= h["evicted_mass"] <= 1 for h in d["heads"])' \
        'abs(sum(h["error"] for h in d["heads"]) / 90 - d["totals"]["error_mean"]) < 1e-6' \
        'abs(sum(h["abs_log_partition_change"] for h in d["heads"]) / 90
              - d["totals"]["abs_log_partition_change_mean"]) < 1e-6' \
        'd["totals"]["bound_max"] == max(h["bound_max"] for h in d["heads"])' \
        'd["heads"][d["totals"]["worst_head"]]["relative_error"] ==
          max(h["relative_error"] for h in d["heads"])'
}

# The table: a row of twelve columns for each head of the model.
run 0 "${ask[@]}" --policy min-h --keep 30%
shows '^model +[^ ].*, '
shows '^prompt +[0-9]+ tokens, '
shows '^policy +min-h, keep 30%, select sample \(tau 1, seed 0\)'
shows '^queries +the last 32$'
shows '^layer +head +kept +share +entropy +draws +ess +merged +evicted +error +bound +relative$'
rows=$(grep -Ec '^ +[0-9]+ +[0-2] +[0-9]+ +[0-9.]+% +[0-9.e-]+ +[0-9.e+]+ +[0-9.e+]+ +- +[0-9.e-]+ +[0-9.e-]+ +[0-9.e-]+ +[0-9.]+%$' "$work/out")
[ "$rows" -eq 90 ] || fail "$rows rows instead of 90"
shows '^kept +[0-9,]+ of [0-9,]+ entries over 90 heads: [0-9.]+ %$'
shows '^evicted +[0-9.]+ % of the attention'
shows '^error +mean [0-9.]+ \([0-9.]+ % of the output\), largest [0-9.]+$'
shows '^bound +mean [0-9.]+, largest [0-9.]+$'
shows '^worst +layer [0-9]+, head [0-2]: error [0-9.]+, [0-9.]+ % of its output$'
shows "^partition +mean \\|ln Z' - ln Z\\| [0-9.]+, where Z is the sum of a query's attention weights$"
shows '^time +read in .*, planned in .*, inspected in '
says_not 'warning'

# The object.
run 0 "${ask[@]}" --policy min-h --keep 30% --json
python3 -m json.tool "$work/out" >/dev/null || fail "not JSON"
consistent
json 'd["settings"]["policy"] == "min-h" and d["settings"]["queries"] == 32' \
    'all(h["draws"] > 0 and h["effective_samples"] > 0 and h["entropy_nat"] > 0 for h in d["heads"])' \
    'd["document"]["bytes"] > 0 and d["prompt"]["question"] is None' \
    'd["prompt"]["document_tokens"] == d["totals"]["tokens"] > 60' \
    'd["prompt"]["question_tokens"] == 0' \
    '0.2 < d["totals"]["kept_share"] < 0.4' \
    'all(h["error"] > 0 and h["evicted_mass"] > 0 for h in d["heads"])' \
    'all(h["abs_log_partition_change"] > 0 for h in d["heads"])'

# The compression that `run` makes of the same prompt is the one inspected.
kept=$(total entries_after)
run 0 run -t 1 -f "$work/text" --policy min-h --keep 30% -n 1 --json
json "d['answers'][0]['compression']['entries_after'] == $kept"

# The same for the policy that is used when none is named.
run 0 "${ask[@]}" --keep 30% --json
consistent
json 'd["settings"]["policy"] == d["settings"]["budget"] == "foresight"' \
    'all(h["draws"] is None for h in d["heads"])'
kept=$(total entries_after)
run 0 run -t 1 -f "$work/text" --keep 30% -n 1 --json
json "d['answers'][0]['compression']['entries_after'] == $kept"

export WINNOW_MODEL=$tiny_model

# Top-k keeps as many as asked for, draws nothing, and has no samples.
run 0 "${ask[@]}" --policy h2o-mean --keep 24 --json
consistent
json 'all(h["kept"] == 24 and h["draws"] is None and h["effective_samples"] is None for h in d["heads"])'
error=$(total error_mean)
run 0 "${ask[@]}" --policy h2o-mean --keep 72 --json
json "d['totals']['error_mean'] < $error"

# Everything kept: nothing moves, beyond rounding.
for words in "--policy full" "--keep 100%" "--keep 5000"; do
    # shellcheck disable=SC2086 # several words
    run 0 "${ask[@]}" $words --json
    consistent
    json 'd["totals"]["kept_share"] == 1' \
        'all(h["error"] < 1e-9 and h["evicted_mass"] == 0 for h in d["heads"])' \
        'all(h["abs_log_partition_change"] < 1e-9 for h in d["heads"])'
done
run 0 "${ask[@]}" --policy full
shows '^policy +full$'
shows '^ +0 +0 +[0-9]+ +100\.0% +- +- +- +- +0 '
! grep -q '^partition' "$work/out" || fail "a partition sum that cannot have changed"

# Merging, other budgets, a question, other queries.
run 0 "${ask[@]}" --policy h2o --keep 24 --merge 0.3 --merge-key mean --json
consistent
json 'd["totals"]["merged"] > 0 and d["settings"]["merge"] == 0.3'
run 0 "${ask[@]}" --policy h2o --keep 24 --merge 0.3
shows '^merged +[0-9,]+ evicted entries into kept ones$'
for budget in global adaptive adaptive-model foresight; do
    run 0 "${ask[@]}" --policy min-h --budget "$budget" --keep 30% --json
    consistent
    json 'len({h["kept"] for h in d["heads"]}) > 1'
done
run 0 "${ask[@]}" --policy pyramidkv --window 8 --beta 4 --sink 0 --recent 0 --keep 40 --json
consistent
json 'd["heads"][0]["kept"] > d["heads"][89]["kept"]'
says_not 'note: --budget pyramid|note: nothing was chosen'
run 0 "${ask[@]}" -p "What are the ponies called?" --queries 5 --json
consistent
json 'd["settings"]["queries"] == 5 and d["prompt"]["question"] == "What are the ponies called?"' \
    'd["prompt"]["document_tokens"] + d["prompt"]["question_tokens"] == d["totals"]["tokens"]' \
    '60 < d["prompt"]["document_tokens"] < d["totals"]["tokens"]'
run 0 "${ask[@]}" -p "What are the ponies called?" -q
shows '^document +[0-9]+ tokens, '
shows '^question +[0-9]+ tokens'
[ -z "$err" ] || fail "-q is not quiet"
# A prompt shorter than the queries asked for has all of its own.
run 0 inspect -t 1 -p hello --queries 4096 --keep 50% --json
consistent
json 'd["settings"]["queries"] == d["totals"]["tokens"]'

# A compression that came to something else than was asked for is said, once, and not with -q.
run 0 "${ask[@]}" --policy h2o --budget pyramid --keep 40 --json
json '{h["kept"] for h in d["heads"]} == {40}'
says '^winnow: note: --budget pyramid kept the same in every layer \(the smallest budget, k / --beta, '
says_not 'note: nothing was chosen'
run 0 "${ask[@]}" --policy snapkv --keep 40 --json
json 'all(h["kept"] == h["protected"] == 40 for h in d["heads"])'
says '^winnow: note: nothing was chosen by score \(.*; raise --keep or lower --window\)$'
says_not 'note: --budget pyramid'
run 0 "${ask[@]}" --policy h2o --keep 20 --sink 8 --recent 12
says '^winnow: note: nothing was chosen by score \(.*; raise --keep or lower --sink or --recent\)$'
run 0 "${ask[@]}" --policy pyramidkv --keep 40 -q
[ -z "$err" ] || fail "-q is not quiet"
run 0 "${ask[@]}" --policy streaming --keep 20 --sink 8 --recent 12 --json
json 'all(h["kept"] == h["protected"] == 20 for h in d["heads"])'
says_not 'note: '

# Progress on a terminal counts over the whole prompt, with and without a question.
# The real model, which is slow enough for a bar.
cat "$work/text" "$work/text" >"$work/long"
for words in "" "-p why"; do
    last_command="inspect -f long $words, on a terminal"
    # shellcheck disable=SC2086 # several words
    WINNOW_MODEL=$real_model WINNOW_CPU=reference python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$WINNOW_BIN" \
        inspect -t 1 -b 32 -f "$work/long" $words >"$work/terminal" </dev/null
    python3 - "$work/terminal" <<'PYTHON' || fail "the progress is not of the whole prompt"
import re, sys
text = open(sys.argv[1], errors="replace").read()
sizes = re.findall(r"^(?:prompt|document|question) +([0-9,]+) tokens", text, re.M)
whole = sum(int(size.replace(",", "")) for size in sizes)
bars = re.findall(r"reading \[[#.]+\] ([0-9,]+) of ([0-9,]+) tokens", text)
sys.exit(0 if bars and all(int(of.replace(",", "")) == whole for _, of in bars) else 1)
PYTHON
done

# What cannot be done is said, by the same rules as for `run`.
refused 2 '--keep 20 leaves 20 of [0-9]+ entries per head' \
    "${ask[@]}" --keep 20 --sink 15 --recent 10
refused 2 '--keep 1KB is too little' "${ask[@]}" --keep 1000B
refused 2 '--keep 5KiB is too little' "${ask[@]}" --keep 5KiB
run 2 "${ask[@]}" --policy h2o --group 0.5,0.5
says 'number of query heads .*group weights'
refused 1 'longer than the context .*-c allows 20' "${ask[@]}" -c 20
refused 1 'cannot open /nonexistent/text' inspect -f /nonexistent/text
run 0 "${ask[@]}" --gamma 1
says 'warning: --gamma has no effect \(only exposure uses it, and the policy is foresight\)'

# Plots. What cannot be drawn is refused before anything is read, as the test of usage shows.
if command -v gnuplot >/dev/null; then
    run 0 "${ask[@]}" --plot "$work/it's \"kept\".svg"
    shows '^worst '
    [ "$(head -c 5 "$work/it's \"kept\".svg")" = '<?xml' ] || fail "not an SVG picture"
    grep -q 'KV head' "$work/it's \"kept\".svg" || fail "no labels"
    run 0 "${ask[@]}" --json --plot "$work/kept.PNG"
    python3 -m json.tool "$work/out" >/dev/null || fail "not JSON"
    [ "$(head -c 8 "$work/kept.PNG" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] ||
        fail "not a PNG picture"
fi
finish
